"""Grids of experiments, the table of runs, and runs side by side."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.config import ConfigError, load_config
from seq2seq_chat.grid import parse_axis
from seq2seq_chat.runs import Run, list_runs

Cli = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("model.hidden_size=256,512", "model.hidden_size", [256, 512]),
        ("model.cell=lstm", "model.cell", ["lstm"]),
        ("training.optimizer=adam,sgd", "training.optimizer", ["adam", "sgd"]),
        ("data.buckets=null,[[5, 5], [9, 9]]", "data.buckets", [None, [[5, 5], [9, 9]]]),
        ('name="a,b"', "name", ["a,b"]),
        ("training.sampled_softmax=null,512", "training.sampled_softmax", [None, 512]),
    ],
)
def test_an_axis(text: str, key: str, values: list[Any]) -> None:
    assert parse_axis(text) == (key, values)


@pytest.mark.parametrize("text", ["", "model.cell", "=3", "model.cell="])
def test_what_is_no_axis(text: str) -> None:
    with pytest.raises(ConfigError, match="write KEY=VALUE"):
        parse_axis(text)


def test_a_grid_is_written_and_can_be_written_again(cli: Cli, tiny_config: Path, tmp_path: Path) -> None:
    grid = ["--grid", "model.hidden_size=4,5", "--grid", "training.optimizer=adam,sgd", "--output", tmp_path / "g"]
    answer = cli("experiments", "new", tiny_config, *grid)
    assert answer.status == 0
    paths = [Path(line) for line in answer.out.splitlines()]
    assert [path.name for path in paths] == [
        "tiny_hidden_size-4_optimizer-adam.json",
        "tiny_hidden_size-4_optimizer-sgd.json",
        "tiny_hidden_size-5_optimizer-adam.json",
        "tiny_hidden_size-5_optimizer-sgd.json",
    ]
    configs = [load_config(path) for path in paths]
    assert [(c.model.hidden_size, c.training.optimizer) for c in configs] == [
        (4, "adam"),
        (4, "sgd"),
        (5, "adam"),
        (5, "sgd"),
    ]
    assert all(config.name == path.stem for config, path in zip(configs, paths, strict=True))
    assert all(config.model.embedding_size == 8 for config in configs)
    before = [path.read_bytes() for path in paths]
    assert cli("experiments", "new", tiny_config, *grid).out == answer.out
    assert [path.read_bytes() for path in paths] == before
    paths[0].write_bytes(before[0].replace(b'"seed": 3', b'"seed": 4'))
    assert "is another experiment already" in cli("experiments", "new", tiny_config, *grid).complaint


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ([], "a grid needs at least one setting"),
        (["--grid", "model.hiden_size=3"], "hidden_size"),
        (["--grid", "model.hidden_size=3,0"], "model.hidden_size"),
        (["--grid", "model.hidden_size=3,3"], "give each value once"),
        (["--grid", "seed=" + ",".join(map(str, range(2000)))], "2,000 experiments are more"),
    ],
)
def test_a_grid_that_cannot_be(cli: Cli, tiny_config: Path, tmp_path: Path, grid: list[str], told: str) -> None:
    folder = tmp_path / "grid"
    assert told in cli("experiments", "new", tiny_config, *grid, "--output", folder).complaint
    assert not folder.exists()


def test_a_grid_that_can_be_written_nowhere(cli: Cli, tiny_config: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("", encoding="utf-8")
    answer = cli("experiments", "new", tiny_config, "--grid", "model.hidden_size=4,5", "--output", taken)
    assert f"{taken} could not be written: File exists" in answer.complaint


def test_a_table_of_runs(cli: Cli, own_run: Path, tiny_run: Path) -> None:
    interrupted = own_run.with_name("2030-01-01_00-00-00_other")
    own_run.rename(interrupted)
    (interrupted / "end.json").unlink()
    metrics = interrupted / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    kept = [line for line in lines if line["step"] <= 10]
    metrics.write_text("".join(json.dumps(line) + "\n" for line in kept) + '{"step": 15, "ki', encoding="utf-8")
    validation = next(line for line in kept if line["kind"] == "validation")
    answer = cli("experiments", "list", "--results", interrupted.parent)
    assert answer.status == 0
    _, row = answer.out.splitlines()
    assert row.split()[:5] == [interrupted.name, "interrupted", "10", "20", f"{validation['perplexity']:,.2f}"]
    (found,) = map(json.loads, cli("experiments", "list", "--results", tiny_run.parent, "--json").out.splitlines())
    assert (found["name"], found["state"], found["step"], found["steps"]) == (tiny_run.name, "finished", 20, 20)
    with Run(interrupted).lock():
        assert " training " in cli("experiments", "list", "--results", interrupted.parent).out
    assert "no run is below" in cli("experiments", "list", "--results", interrupted).err


def test_runs_side_by_side(cli: Cli, own_run: Path, tmp_path: Path) -> None:
    import shutil

    other = own_run.with_name("other")
    shutil.copytree(own_run, other)
    cli("train", "--resume", other, "--set", "training.steps=22", "--set", "training.learning_rate=0.01")
    answer = cli("experiments", "compare", own_run, other, "--json", tmp_path / "c.json")
    assert answer.status == 0
    rows = {line.split("  ")[0]: line.split()[-2:] for line in answer.out.splitlines() if line.strip()}
    assert rows["training.learning_rate"] == ["0.05", "0.01"]
    assert rows["training.steps"] == rows["steps"] == ["20", "22"]
    assert "model.hidden_size" not in rows
    best = min(
        line["loss"]
        for line in map(json.loads, (own_run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        if line["kind"] == "validation"
    )
    found = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert found["figures"]["best validation loss (nats per token)"][0] == pytest.approx(best, abs=1e-3)
    assert "(no setting differs)" in cli("experiments", "compare", own_run, own_run).out


@pytest.mark.slow
def test_a_grid_is_trained_stopped_and_goes_on(cli: Cli, tiny_config: Path, tmp_path: Path) -> None:
    """Two experiments: the first is stopped by SIGTERM; the second time it goes on, the third nothing is left to do."""
    grid = [tiny_config, "--grid", "seed=3,4", "--output", tmp_path / "grid", "--results", tmp_path / "results"]
    command = [sys.executable, "-m", "seq2seq_chat", "experiments", "new", *map(str, grid), "--train"]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe: Any = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("step 5 "):
                process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        told = process.stderr.read()
    assert process.returncode == 143
    assert "the same command goes on" in told
    (first,) = list_runs(tmp_path / "results")
    stopped_at = first.checkpoints()[-1][0]
    assert 5 <= stopped_at < 20
    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert f"1 of 2, tiny_seed-3: going on in {first.path}" in again.stderr
    assert f"going on from step {stopped_at}" in again.stdout
    runs = list_runs(tmp_path / "results")
    assert [run.checkpoints()[-1][0] for run in runs] == [20, 20]
    assert {run.config.seed for run in runs} == {3, 4}
    third = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert third.stderr.count("trained already") == 2
