from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.corpus import CorpusError, Vocabulary, corpus_statistics

Write = Callable[..., Path]


def test_by_hand(corpus_file: Write, letters: Vocabulary, tmp_path: Path) -> None:
    paths = {
        "train": corpus_file("a b / c d e / ** / f", "*", "a / x y", name="train.txt"),
        "test": corpus_file("z", name="test.txt"),
        "validation": tmp_path / "validation.txt",
    }
    paths["validation"].touch()
    statistics = corpus_statistics(paths, letters, "word", "sliding", 2, 3)
    assert statistics == {
        "train": {
            "conversations": 2,
            "utterances": 5,
            "samples": 3,
            "words": 9,
            "distinct_words": 8,
            "coverage_percent": 77.78,
            # "c d e" as a target has no room for EOS, as a source it has one word too many;
            # "x y" with EOS just fits.
            "too_long_percent": 66.67,
        },
        "test": {
            "conversations": 1,
            "utterances": 1,
            "samples": 0,
            "words": 1,
            "distinct_words": 1,
            "coverage_percent": 0.0,
            "too_long_percent": 0.0,
        },
        "validation": {
            "conversations": 0,
            "utterances": 0,
            "samples": 0,
            "words": 0,
            "distinct_words": 0,
            "coverage_percent": 0.0,
            "too_long_percent": 0.0,
        },
        "total": {
            "conversations": 3,
            "utterances": 6,
            "samples": 3,
            "words": 10,
            "distinct_words": 9,
            "coverage_percent": 70.0,
            "too_long_percent": 66.67,
        },
    }


def test_alternating_and_characters(corpus_file: Write, letters: Vocabulary) -> None:
    path = corpus_file("a b / c / d")
    figures = corpus_statistics({"all": path}, letters, "character", "alternating", 9, 9)["all"]
    assert figures["samples"] == 1
    assert figures["words"] == 5  # the space counts
    assert figures["coverage_percent"] == 80.0


def test_unreadable(tmp_path: Path, letters: Vocabulary) -> None:
    with pytest.raises(CorpusError, match="does not exist"):
        corpus_statistics({"train": tmp_path / "none"}, letters, "word", "sliding", 9, 9)
