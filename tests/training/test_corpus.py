"""Training samples of more than data.max_length tokens are left out."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.checks.check_context import CheckContext
from seq2seq_chat.checks.data import check_data
from seq2seq_chat.config import Config, parse_config
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.training.sampler import open_training_corpus
from tests.conftest import CommandResult

Cli = Callable[..., CommandResult]

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


def test_nothing_to_leave_out_is_not_mentioned(tmp_path: Path) -> None:
    corpus, messages = open_corpus(parse_config(settings(write(tmp_path / "train.tsv", KEPT)), "test"))
    assert (len(corpus), messages) == (3, [])


def test_nothing_left(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", TOO_LONG)
    with pytest.raises(CorpusError, match=r"no samples left: all 2 have .* data\.max_length, 4 tokens"):
        open_corpus(parse_config(settings(train), "test"))


@pytest.mark.slow
def test_training_equals_one_on_the_short_samples_alone(cli: Cli, tmp_path: Path) -> None:
    """Bit for bit, also when it is resumed; validation keeps its long samples."""
    rng = random.Random(1)
    pairs = [(" ".join(rng.choices("abcde", k=rng.randint(1, 6))),) * 2 for _ in range(40)]
    short = [pair for pair in pairs if len(pair[0].split()) <= 3]
    assert 10 < len(short) < 30
    files = {"all": write(tmp_path / "all.tsv", pairs), "short": write(tmp_path / "short.tsv", short)}
    words = ["<pad>", "<go>", "<eos>", "<unknown>", *"abcde"]
    (tmp_path / "words.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    data = {"vocabulary": str(tmp_path / "words.txt"), "shared_vocabulary": True, "validation": files["all"]}

    def train(name: str, corpus: str, max_length: int | None, *options: Any) -> tuple[Path, str]:
        (tmp_path / name).write_text(json.dumps(settings(files[corpus], max_length, **data)), encoding="utf-8")
        result = cli("train", tmp_path / name, "--results", tmp_path / f"results-{name}", *options)
        assert result.status == 0, result
        return Path(result.out.splitlines()[-1]), result.out

    expected, log = train("expected", "short", max_length=None)
    assert "left out" not in log
    run, log = train("left-out", "all", 3, "--set", "training.steps=3")
    assert log.count(f"left out {40 - len(short)} of 40 training samples") == 1
    assert f"{len(short)} training samples" in log and "40 validation samples" in log
    assert cli("train", "--resume", run, "--set", "training.steps=6").status == 0
    assert weights(run) == weights(expected)

    refused = cli("train", "--resume", run, "--set", "data.max_length=4", "--set", "training.steps=9")
    assert "data.max_length (3 → 4)" in refused.error_message


def weights(run: Path) -> dict[str, bytes]:
    with np.load(run / "checkpoints" / "0000000006.npz") as file:
        return {name: file[name].tobytes() for name in file.files if name != "metadata.json"}
