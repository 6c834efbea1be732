"""Training samples of more than data.max_length tokens are left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.checks.check_context import CheckContext
from seq2seq_chat.checks.data import check_data
from seq2seq_chat.config import Config, parse_config
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.training.sampler import open_training_corpus
from tests.conftest import Cli

KEPT = [("a b c d", "d c b"), ("a", "b"), ("c c", "a b c a")]
"""At most 4 tokens on either side."""
TOO_LONG = [("a b c d e", "a"), ("a", "a b c d a")]


def write(path: Path, pairs: list[tuple[str, str]]) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def settings(train: str, max_length: int | None = 4, **data: Any) -> dict[str, Any]:
    sizes = {"hidden_size": 6, "embedding_size": 5, "projection_size": None, "encoder_steps": 4, "decoder_steps": 4}
    return {
        "name": "short",
        "task": "translation",
        "data": {"train": train, "tokenizer": "unicode", "max_length": max_length, **data},
        "model": sizes,
        "training": {"batch_size": 4, "steps": 6, "checkpoint_every": 3, "sampled_softmax": None, "log_every": 2},
    }


def open_corpus(config: Config) -> tuple[Dataset, list[str]]:
    messages: list[str] = []
    return open_training_corpus(config, build_codecs(config.data), messages.append), messages


def test_by_hand(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", [TOO_LONG[0], *KEPT[:2], TOO_LONG[1], KEPT[2]])
    config = parse_config(settings(train), "test")
    corpus, messages = open_corpus(config)
    assert [message.replace(train, "train.tsv") for message in messages] == [
        "left out 2 of 5 training samples (40.0 %) of more than 4 tokens"
    ]
    assert (corpus.source_lengths().tolist(), corpus.target_lengths().tolist()) == ([4, 1, 2], [3, 1, 4])
    words = build_codecs(config.data).source.words
    assert [" ".join(words(corpus.source_ids(i))) for i in range(len(corpus))] == [source for source, _ in KEPT]

    everything, messages = open_corpus(parse_config(settings(train, max_length=None), "test"))
    assert (len(everything), messages) == (5, [])
    assert everything.fingerprint != corpus.fingerprint

    measured = check_data(CheckContext(config, tmp_path), lambda text: None)
    assert "3 samples" in measured.detail


def test_nothing_to_leave_out_and_nothing_left(tmp_path: Path) -> None:
    corpus, messages = open_corpus(parse_config(settings(write(tmp_path / "train.tsv", KEPT)), "test"))
    assert (len(corpus), messages) == (3, [])
    train = write(tmp_path / "train.tsv", TOO_LONG)
    with pytest.raises(CorpusError, match=r"no samples left: all 2 have .* data\.max_length, 4 tokens"):
        open_corpus(parse_config(settings(train), "test"))


@pytest.mark.slow
def test_only_training_leaves_samples_out(cli: Cli, tmp_path: Path) -> None:
    """Validation keeps its long samples; the limit cannot change when training is resumed."""
    train = write(tmp_path / "train.tsv", [*KEPT, *TOO_LONG] * 4)
    (tmp_path / "config.json").write_text(json.dumps(settings(train, validation=train)), encoding="utf-8")
    result = cli("train", tmp_path / "config.json", "--results", tmp_path / "results")
    assert result.status == 0, result
    assert result.out.count("left out 8 of 20 training samples") == 1
    assert "12 training samples" in result.out and "20 validation samples" in result.out
    refused = cli("train", "--resume", result.out.splitlines()[-1], "--set", "data.max_length=5")
    assert "data.max_length (4 → 5)" in refused.error_message
