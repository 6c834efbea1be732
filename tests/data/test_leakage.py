"""Leakage compared to lists, for conversations and pairs, and replies that are copies of training targets."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.config import Data
from seq2seq_chat.data.corpus_file import write_conversations
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.report import memorization
from seq2seq_chat.report import scoring as leakage
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import TURN
from tests.random_runs import make_codec

TEXTS = st.sampled_from(["Hi", "hi !", "HI!", "a b", "a  b", "ab", "Où?", "ou ?"])
CONVERSATIONS = st.lists(st.lists(TEXTS, min_size=2, max_size=6), min_size=1, max_size=6)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8)
CHARACTERS, ENGLISH = make_codec("character", [TURN]), make_codec("english", [TURN])
"""All words are unknown, so that only their tokens tell samples from each other."""


def check(codecs: Codecs, corpora: Sequence[Any], samples: Sequence[list[Any]], suffix: str, **data: Any) -> None:
    """Compare what is found in the second corpus, in blocks of three, with the samples of both."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(leakage, "_BLOCK", 3)
        opened = []
        for number, texts in enumerate(corpora):
            path = Path(folder, f"{number}.{suffix}")
            if suffix == "txt":
                write_conversations(path, texts)
            else:
                path.write_text("".join("\t".join(row) + "\n" for row in texts), encoding="utf-8")
            opened.append(Dataset.open(path, codecs, Data(train=str(path), **data)))
        found = leakage.find_leakage(opened[1], np.arange(len(opened[1])), opened[0])
    train, other = samples
    targets = [target for _, target in train]
    assert found[0].tolist() == [sample in train for sample in other]
    assert found[1].tolist() == [target in targets for _, target in other]


@settings(deadline=None, max_examples=15)
@given(CONVERSATIONS, CONVERSATIONS, st.sampled_from(["sliding", "alternating"]), st.booleans(), st.booleans())
def test_conversations(train: Any, other: Any, pairing: Any, swapped: bool, long_context: bool) -> None:
    """A sample is its last utterance and the reply, whatever the context."""
    changes: dict[str, Any] = {"swap_source_target": swapped} if not long_context else {"context_turns": 3}
    step = 1 if pairing == "sliding" else 2

    def samples(texts: list[list[str]]) -> list[tuple[list[str], ...]]:
        found = [c[i : i + 2] for c in texts for i in range(0, len(c) - 1, step)]
        encoded = [tuple(map(ENGLISH.tokenizer.encode, pair)) for pair in found]
        return [sample[::-1] for sample in encoded] if swapped and not long_context else encoded

    check(Codecs.shared(ENGLISH), (train, other), (samples(train), samples(other)), "txt", pairing=pairing, **changes)


@settings(deadline=None, max_examples=15)
@given(PAIRS, PAIRS)
def test_pairs_with_two_tokenizers(train: Any, other: Any) -> None:
    """The source is compared by its characters, the target by its cleaned words."""
    encode = ENGLISH.tokenizer.encode
    samples = [[(source, encode(target)) for source, target in rows] for rows in (train, other)]
    check(
        Codecs(CHARACTERS, ENGLISH), (train, other), samples, "tsv", tokenizer="character", target_tokenizer="english"
    )


def test_copies_of_training_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources are no targets; of several targets with the same tokens the first one counts; blocks of two samples."""
    monkeypatch.setattr(memorization, "_BLOCK", 2)
    targets = [
        "See you in Zürich .",
        "Call 079 555 12 34 !",
        "Write to ada@example.com",
        "on www.example.com",
        "I think I know",  # the pronoun is no name
        "Yes , at 7 .",
        "Ask NAME at NUMBER",  # of an anonymized chat
        "No .",
        "no .",
        "see you in Zürich .",
    ]
    path = tmp_path / "train.txt"
    write_conversations(path, [[f"Question {number} 12345", target] for number, target in enumerate(targets)])
    codec = make_codec("whitespace", [])
    training = Dataset.open(path, Codecs.shared(codec), Data(train=str(path), tokenizer="whitespace"))
    replies = [*targets, "No .", "Question 1 12345", "See you", ""]
    assert memorization.find_copies(replies, training) == (11, 5, targets[:3])
    assert memorization.find_copies(replies[4:9], training) == (5, 0, [])
