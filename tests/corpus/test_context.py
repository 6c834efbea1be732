"""Sources of several turns, and swapped samples, against a plain reading of the rules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.corpus.encoded import EncodedCorpus
from seq2seq_chat.corpus.files import END_OF_CONVERSATION
from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS, TURN, Vocabulary

WORDS = ["a", "b", "c", "d", "e"]
VOCABULARY = Vocabulary([*SPECIAL_WORDS, *WORDS, TURN])

conversations = st.lists(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), min_size=1, max_size=6), min_size=1, max_size=4
)


def write(folder: Path, spoken: list[list[list[str]]]) -> Path:
    path = folder / "corpus.txt"
    blocks = ["\n".join(" ".join(words) for words in conversation) for conversation in spoken]
    path.write_text(f"\n{END_OF_CONVERSATION}\n".join(blocks) + "\n", encoding="utf-8")
    return path


def expected(spoken: list[list[list[str]]], turns: int, pairing: str) -> list[tuple[list[str], list[str]]]:
    samples = []
    for conversation in spoken:
        for answer in range(1, len(conversation), 1 if pairing == "sliding" else 2):
            source: list[str] = []
            for turn in conversation[max(0, answer - turns) : answer]:
                source += ([TURN] if source else []) + turn
            samples.append((source, conversation[answer]))
    return samples


@settings(max_examples=40, deadline=None)
@given(spoken=conversations, turns=st.integers(1, 4), pairing=st.sampled_from(["sliding", "alternating"]))
def test_the_last_turns_before_the_answer(
    tmp_path_factory: pytest.TempPathFactory, spoken: list[list[list[str]]], turns: int, pairing: str
) -> None:
    samples = expected(spoken, turns, pairing)
    if not samples:
        return
    path = write(tmp_path_factory.mktemp("corpus"), spoken)
    corpus = EncodedCorpus.open(path, VOCABULARY, pairing=pairing, turns=turns)  # type: ignore[arg-type]
    ids = [(corpus.source_ids(i), corpus.target_ids(i)) for i in range(len(corpus))]
    assert [(VOCABULARY.tokens(source), VOCABULARY.tokens(target)) for source, target in ids] == samples
    assert corpus.source_lengths().tolist() == [len(source) for source, _ in samples]
    assert corpus.target_lengths().tolist() == [len(target) for _, target in samples]
    batch = corpus.batch(range(len(samples)), size=len(samples), source_steps=6, target_steps=5, reverse=True)
    for row, (source, target) in enumerate(samples):
        kept = VOCABULARY.ids(source)[-6:][::-1]
        assert batch.source[row].tolist() == kept + [0] * (6 - len(kept))
        assert batch.target[row].tolist() == VOCABULARY.ids(target) + [2] + [0] * (4 - len(target))


def test_swapped_samples(tmp_path: Path) -> None:
    path = write(tmp_path, [[["a"], ["b", "c"], ["d", "d", "d"]]])
    plain, swapped = (EncodedCorpus.open(path, VOCABULARY, swapped=swapped) for swapped in (False, True))
    shape = {"size": 2, "source_steps": 4, "target_steps": 5, "reverse": False}
    one, other = (corpus.batch([0, 1], **shape) for corpus in (plain, swapped))
    for row in range(2):
        source, target = one.source[row, : one.source_length[row]], one.target[row, : one.target_length[row] - 1]
        np.testing.assert_array_equal(other.source[row, : other.source_length[row]], target)
        np.testing.assert_array_equal(other.target[row, : other.target_length[row] - 1], source)
    assert swapped.source_lengths().tolist() == plain.target_lengths().tolist()
