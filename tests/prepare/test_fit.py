"""The experiment that fits a prepared corpus."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.config import load_config
from seq2seq_chat.prepare.fit import fit_experiment
from tests.conftest import Cli

WORDS = [f"word{index}" for index in range(30)]


def write_lines(path: Path, kind: str, count: int = 400) -> Path:
    rng = random.Random(1)
    sentence = lambda: " ".join(rng.choices(WORDS, k=rng.randint(3, 12)))  # noqa: E731
    lines = [f"{sentence()}\t{sentence()}" if kind == "pairs" else sentence() for _ in range(count)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize("kind", ["lines", "pairs", "text"])
def test_the_printed_command_trains_from_any_folder(
    cli: Cli, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prepared = cli("prepare", kind, write_lines(Path("raw.txt"), kind), "--output", "my corpus!", "--split", "80,10,10")
    assert prepared.status == 0, prepared
    (command,) = [line for line in prepared.out.splitlines() if line.startswith("to train it: ")]
    assert command == "to train it: seq2seq-chat train 'my corpus!/experiment.json'"
    config = load_config("my corpus!/experiment.json")
    assert config.name == "my-corpus"
    assert {"lines": "conversation", "pairs": "translation", "text": "language_model"}[kind] == config.task
    if kind != "text":
        assert (config.model.encoder_steps, config.model.decoder_steps) == (12, 13)  # the longest have 12 words
    assert config.training.steps >= 200
    assert 0.02 <= (config.training.hours or 0) <= 0.5
    moved = Path(shutil.move("my corpus!", tmp_path / "elsewhere"))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    few = [part for change in ("steps=2", "validate_every=1") for part in ("--set", f"training.{change}")]
    trained = cli("train", moved / "experiment.json", *few)
    assert trained.status == 0, trained
    assert "beside the configuration" in trained.err


def test_larger_corpora_get_larger_models_and_fewer_passes(tmp_path: Path) -> None:
    data: dict[str, Any] = {"train": str(write_lines(tmp_path / "train.txt", "lines"))}
    amounts = (3_000, 30_000, 300_000, 3_000_000)
    fitted = [fit_experiment("conversation", data, amount, "x")[0] for amount in amounts]
    sizes = [settings["model"]["hidden_size"] for settings in fitted]
    assert sizes == sorted(sizes) and sizes[0] == 128 and sizes[-1] == 1024
    passes = [s["training"]["steps"] * s["training"]["batch_size"] / n for s, n in zip(fitted, amounts, strict=True)]
    assert passes == sorted(passes, reverse=True)
    assert all("early_stopping" not in settings["training"] for settings in fitted)  # without validation


def test_a_configuration_without_sizes_is_the_thesis(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "x.json"
    config.write_text(json.dumps({"name": "x", "data": {"train": str(tmp_path / "missing.txt")}}))
    result = cli("train", config)
    assert "so the thesis's sizes apply" in result.err and "3,000,000 steps" in result.err


def test_a_file_in_the_working_directory_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    for folder in (tmp_path, tmp_path / "there"):
        (folder / "train.txt").write_text("a\nb\n")
    (tmp_path / "there" / "x.json").write_text(json.dumps({"name": "x", "data": {"train": "train.txt"}}))
    monkeypatch.chdir(tmp_path)
    assert load_config("there/x.json").data.train == "train.txt"
    (tmp_path / "train.txt").unlink()
    assert load_config("there/x.json").data.train == "there/train.txt"
