from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from seq2seq_chat.prepare.pipeline import prepare
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.text.tokenizers import TokenizerSettings

Write = Callable[..., Path]


def test_counts_by_hand(corpus_file: Write, tmp_path: Path) -> None:
    path = corpus_file("a b / c d e / ** / f", "*", "a / x y", "z")
    statistics = prepare(
        PrepareSettings("lines", split=(1, 0, 0), vocabulary_size=11, encoder_steps=2, decoder_steps=3),
        [path],
        tmp_path / "output",
    )
    train = {
        "conversations": 3,
        "utterances": 6,
        "samples": 3,
        "words": 10,
        "distinct_words": 9,
        "coverage_percent": 80.0,  # the vocabulary has a, which occurs twice, and b to f and x
        # "c d e" as a target has no room for EOS, as a source it has one word too many; "x y" with EOS just fits.
        "too_long_percent": 66.67,
    }
    empty = {**dict.fromkeys(train, 0), "coverage_percent": 0.0, "too_long_percent": 0.0}
    assert {name: statistics[name] for name in ("train", "validation", "test", "total")} == {
        "train": train,
        "validation": empty,
        "test": empty,
        "total": train,
    }


def test_characters_and_alternating_pairs(corpus_file: Write, tmp_path: Path) -> None:
    statistics = prepare(
        PrepareSettings(
            "lines",
            split=(1, 0, 0),
            tokenizer=TokenizerSettings("character"),
            pairing="alternating",
            vocabulary_size=8,
        ),
        [corpus_file("a b / c / d")],
        tmp_path / "output",
    )["train"]
    assert (statistics["samples"], statistics["words"]) == (1, 5)  # the space counts as a character
    assert statistics["coverage_percent"] == 80.0
