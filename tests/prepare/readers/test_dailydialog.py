"""Prepare and load the real DailyDialog."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.data.dataset import Dataset, fit_source
from seq2seq_chat.prepare.pipeline import prepare
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.tokenizers.english import EnglishTokenizer
from seq2seq_chat.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def prepared(dailydialog: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("dailydialog")
    prepare(PrepareSettings("dailydialog", vocabulary_size=8000), [dailydialog], output)
    return output


def plain_conversations(path: Path) -> list[list[str]]:
    parts = path.read_text().split("<<<<<END-CONV>>>>>\n")
    return [part.splitlines() for part in parts[:-1]]


@pytest.mark.parametrize(("split", "dialogues"), [("train", 11_118), ("validation", 1000), ("test", 1000)])
def test_official_split(prepared: Path, split: str, dialogues: int) -> None:
    assert len(plain_conversations(prepared / f"{split}.txt")) == dialogues


def test_text_is_cleaned(prepared: Path) -> None:
    allowed = re.compile(r"([a-z0-9]+|[.,!?])( ([a-z0-9]+|[.,!?]))*|<<<<<END-CONV>>>>>")
    lines = (prepared / "test.txt").read_text().splitlines()
    assert all(allowed.fullmatch(line) for line in lines)


def test_encoded_samples(prepared: Path) -> None:
    vocabulary = Vocabulary.load(prepared / "vocabulary.txt")
    assert len(vocabulary) == 8000
    corpus = Dataset.open(prepared / "test.txt", Codecs.of_words(vocabulary))
    pairs = [pair for lines in plain_conversations(prepared / "test.txt") for pair in pairwise(lines)]
    assert len(corpus) == len(pairs)
    assert corpus.source_lengths().tolist() == [len(source.split()) for source, _ in pairs]
    chosen = np.random.default_rng(1).choice(len(pairs), 256, replace=False)
    batch = corpus.batch(chosen, size=256, source_steps=20, target_steps=20, reverse=True)
    for row, index in enumerate(chosen):
        ids = [vocabulary.ids(EnglishTokenizer().encode(text)) for text in pairs[index]]
        source, length = fit_source(ids[0], 20, reverse=True)
        np.testing.assert_array_equal(batch.source[row], source)
        assert batch.source_length[row] == length
        target = [*ids[1], 2][:20]
        assert batch.target[row, : batch.target_length[row]].tolist() == target
