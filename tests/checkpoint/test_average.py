"""Averages of weights against NumPy, and what they are used for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.checkpoint.arrays import METADATA, read_arrays, write_arrays
from seq2seq_chat.checkpoint.average import steps_to_average
from seq2seq_chat.runs.run import Run
from seq2seq_chat.text.codec import Codecs
from tests.conftest import Cli
from tests.random_runs import make_codec, random_run, small_config

LOSSES = {10: 3.0, 20: 1.0, 30: 2.0, 40: 2.5}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run with a snapshot at step 10 and checkpoints at steps 20, 30 and 40, all with other weights."""
    codecs = Codecs.shared(make_codec("english", [f"word{number}" for number in range(12)]))
    run = random_run(tmp_path, small_config(), codecs)
    random = np.random.default_rng(3)
    original = run.checkpoint_path(7)
    with np.load(original) as archive:
        names = [name for name in archive.files if name != METADATA]
    arrays, metadata = read_arrays(original, names)
    original.unlink()
    run.snapshot_path(10).parent.mkdir(parents=True)
    for step in LOSSES:
        path = run.snapshot_path(step) if step == 10 else run.checkpoint_path(step)
        noisy = {name: array + random.normal(size=array.shape).astype(np.float32) for name, array in arrays.items()}
        write_arrays(path, noisy, {**metadata, "step": step})
    lines = [json.dumps({"step": step, "kind": "validation", "loss": loss}) for step, loss in LOSSES.items()]
    run.metrics_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return run


def test_which_weights_are_averaged(run: Run) -> None:
    """The newest ones, or those with the lowest losses, earliest first."""
    steps = sorted(LOSSES)
    for count in (2, 3, 4):
        assert steps_to_average(run, last=count) == steps[-count:]
        assert steps_to_average(run, best=count) == sorted(sorted(steps, key=lambda step: LOSSES[step])[:count])


@pytest.mark.parametrize(
    ("options", "steps"),
    [((), (10, 20, 30, 40)), (("--last", 2), (30, 40)), (("--best", 3), (20, 30, 40))],
)
def test_the_mean(run: Run, cli: Cli, options: tuple[object, ...], steps: tuple[int, ...]) -> None:
    result = cli("average", run.path, *options, "--output", "mean", "--results", run.results)
    assert result.status == 0, result
    averaged = Run(run.results / "mean")
    assert result.out.splitlines()[-1] == str(averaged.path)
    files = [run.snapshot_path(step) if step == 10 else run.checkpoint_path(step) for step in steps]
    with np.load(averaged.snapshot_path(steps[-1])) as mean:
        names = [name for name in mean.files if name != METADATA]
        for name in names:
            expected = np.mean([np.load(file)[name] for file in files], axis=0)
            np.testing.assert_allclose(mean[name], expected, rtol=1e-6, atol=1e-7)
    assert len(names) > 5
    assert Chatbot.load(averaged).reply("word1").hypotheses
    (listed,) = [row for row in cli("experiments", "list", "--results", run.results).out.splitlines() if "mean" in row]
    assert "finished" in listed


def test_what_cannot_be_averaged(run: Run, cli: Cli) -> None:
    command = ("average", run.path, "--results", run.results, "--output")
    assert "has fewer than 5 saved weights (steps: 10, 20, 30, 40)" in cli(*command, "x", "--last", "5").err
    run.metrics_file.unlink()
    assert "has fewer than 2 saved weights of a validation (steps: none)" in cli(*command, "x", "--best", "2").err
    assert "exclude each other" in cli(*command, "x", "--best", "2", "--last", "2").err
    (run.results / "x").mkdir()
    assert "x exists; choose another --output" in cli(*command, "x").err
    run.checkpoint_path(30).write_bytes(run.checkpoint_path(30).read_bytes()[:-99])
    damaged = cli(*command, "y")
    assert damaged.status == 2 and "0000000030.npz is damaged" in damaged.err
    assert not (run.results / "y").exists()
