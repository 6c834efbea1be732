"""The bundled conversations are clean and consistent, and generated from the files beside them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import generate_conversations
import pytest
from click.testing import CliRunner

from seq2seq_chat.config import Data, load_config
from seq2seq_chat.data.corpus_file import bundled_conversations, read_utterances
from seq2seq_chat.data.samples import read_samples
from seq2seq_chat.text.tokenizers import Tokenizers
from seq2seq_chat.text.tokenizers.english import EnglishTokenizer, clean

SAMPLE = bundled_conversations().parent
FILES = ("conversations.txt", "validation.txt", "dialogues.txt", "dialogues_validation.txt")


def samples(name: str) -> Iterator[tuple[str, str]]:
    tokenizer, data = EnglishTokenizer(), Data(train=str(SAMPLE / name), pairing="alternating")
    for sample in read_samples(SAMPLE / name, data, Tokenizers(tokenizer, tokenizer)):
        yield " ".join(sample.source_tokens), " ".join(sample.target_tokens)


@pytest.mark.parametrize("name", FILES)
def test_format_is_valid_and_text_is_clean(name: str) -> None:
    lines = [line for _, line in read_utterances(str(SAMPLE / name))]
    assert [clean(line) for line in lines] == lines


def test_almost_every_utterance_has_a_single_reply() -> None:
    replies = defaultdict(set)
    for source, target in samples("conversations.txt"):
        replies[source].add(target)
    assert len(replies) >= 8000
    assert sum(len(targets) == 1 for targets in replies.values()) >= 0.995 * len(replies)


def test_validation_has_new_utterances_and_known_replies() -> None:
    train, validation = list(samples("conversations.txt")), list(samples("validation.txt"))
    assert len(validation) >= 200
    assert not {source for source, _ in validation} & {source for source, _ in train}
    assert {target for _, target in validation} <= {target for _, target in train}


def test_quickstart_cuts_nothing() -> None:
    model = load_config(SAMPLE.parent / "quickstart.json").model
    for name in ("conversations.txt", "validation.txt"):
        for source, target in samples(name):
            assert len(source.split()) <= model.encoder_steps
            assert len(target.split()) < model.decoder_steps


def test_the_files_are_up_to_date(tmp_path: Path) -> None:
    result = CliRunner().invoke(generate_conversations.main, [str(SAMPLE), "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for name in ("conversations.txt", "validation.txt"):
        assert (tmp_path / name).read_bytes() == (SAMPLE / name).read_bytes(), "run scripts/generate_conversations.py"


def test_patterns_are_expanded() -> None:
    pattern = generate_conversations.parse("(hi|good [day|night]) you [there]")
    texts = generate_conversations.expand(pattern)
    expected = {f"{start} you{end}" for start in ("hi", "good", "good day", "good night") for end in ("", " there")}
    assert (set(texts), len(texts), generate_conversations.count(pattern)) == (expected, 8, 8)
    rng = random.Random(1)
    assert {generate_conversations.pick(pattern, rng) for _ in range(200)} == expected


def test_many_inner_groups_are_expanded_independently() -> None:
    names = "abcdefghijkl"
    alternatives = "|".join(f"{name} ({'|'.join('123456789')})" for name in names)  # 9^12 combinations of choices
    texts = generate_conversations.expand(generate_conversations.parse(f"({alternatives})"))
    assert set(texts) == {f"{name} {digit}" for name in names for digit in "123456789"}


def test_the_shortest_texts_of_a_large_pattern_are_always_chosen() -> None:
    words = [f"word{n}" for n in range(90)]
    texts = generate_conversations.texts_of(f"({'|'.join(words)}) [please|now]", random.Random(1))
    assert set(words) <= set(texts)
    assert len(set(texts)) > len(words)
