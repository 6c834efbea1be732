"""A dynamically unrolled model through the command line: it trains, resumes, validates, evaluates and chats."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.runs.json_lines import read_json_lines
from tests.conftest import Cli, edit_checkpoints, edit_config

pytestmark = pytest.mark.slow


@pytest.fixture
def settings(tiny_settings: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """Three buckets, of which none has a multiple of the batch size of samples."""
    rng = random.Random(1)
    for kind, count in (("train", 45), ("validation", 11)):
        words = [" ".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(1, 7))) for _ in range(2 * count)]
        tiny_settings["data"][kind] = str(tmp_path / f"{kind}.txt")
        Path(tiny_settings["data"][kind]).write_text("\n".join(words) + "\n", encoding="utf-8")
    tiny_settings["data"] |= {"buckets": [[2, 4], [6, 6]], "vocabulary_size": 24}
    tiny_settings["model"] |= {"hidden_size": 8}
    tiny_settings["training"] |= {"batch_size": 8, "sampled_softmax": 16, "log_every": 1, "learning_rate": 0.01}
    return tiny_settings


@pytest.fixture
def train(cli: Cli, settings: dict[str, Any], tmp_path: Path) -> Callable[..., Path]:
    """Train the settings with some changes; returns the run."""

    def call(name: str, **changes: Any) -> Path:
        config, overrides = tmp_path / "config.json", [f"{path}={value}" for path, value in changes.items()]
        config.write_text(json.dumps(settings), encoding="utf-8")
        arguments = [part for override in overrides for part in ("--set", override)]
        result = cli("train", config, "--results", tmp_path / name, *arguments)
        assert (result.status, result.err) == (0, "")
        (run,) = (tmp_path / name).iterdir()
        return run

    return call


def losses(run: Path) -> list[tuple[str, int, float]]:
    """(kind, step, loss) of every line of the metrics."""
    return [(line["kind"], line["step"], line["loss"]) for line in read_json_lines(run / "metrics.jsonl")]


@pytest.mark.parametrize("attention", ["additive", pytest.param("none", marks=pytest.mark.nightly)])
def test_the_loss_curve_is_that_of_static_unrolling(train: Callable[..., Path], attention: str) -> None:
    common = {"model.attention": attention, "training.steps": 100, "training.validate_every": 50}
    static, dynamic = (losses(train(name, **common, **{"model.unrolling": name})) for name in ("static", "dynamic"))
    assert [line[:2] for line in dynamic] == [line[:2] for line in static]
    assert len(static) == 102
    np.testing.assert_allclose([line[2] for line in dynamic], [line[2] for line in static], rtol=0, atol=1e-4)


def test_training_resumes_and_the_run_is_evaluated_and_chats(
    cli: Cli, train: Callable[..., Path], tmp_path: Path
) -> None:
    changes = {"model.unrolling": "dynamic", "model.attention": "general", "training.validate_every": 6}
    run = train("run", **changes, **{"training.steps": 7})
    resumed = cli("train", "--resume", run, "--set", "training.steps=12")
    assert (resumed.status, resumed.err) == (0, "")
    static = tmp_path / "static"
    shutil.copytree(run, static)
    edit_config(static, "model", unrolling="static")
    edit_checkpoints(static, lambda metadata: metadata.pop("settings"))
    measured = []
    for folder in (run, static):
        evaluated = cli("evaluate", folder, "--json", tmp_path / "metrics.json")
        assert (evaluated.status, evaluated.err) == (0, "")
        measured.append(json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8")))
        command = ("chat", folder, "--engine", "tensorflow")
        chat = [cli(*command, *beam, stdin=b"a b c\nd\n\ne f g h\n") for beam in ((), ("--n-best", 3))]
        assert all((replies.status, replies.err) == (0, "") for replies in chat)
        measured[-1] |= {"chat": [replies.out for replies in chat]}
    dynamic, expected = measured
    assert dynamic["loss"] == pytest.approx(losses(run)[-1][2], rel=1e-6)
    assert dynamic["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    assert dynamic["chat"] == expected["chat"]
    assert len(dynamic["chat"][0].splitlines()) == 4
