"""Grids of experiments, the table of runs, and runs side by side."""

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
from seq2seq_chat.runs.find import list_runs
from seq2seq_chat.runs.grid import Experiment, _run, parse_axis, train_all
from seq2seq_chat.runs.run import Run
from seq2seq_chat.runs.summary import compare

Cli = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("model.hidden_size=256,512", "model.hidden_size", [256, 512]),
        ("model.cell=lstm", "model.cell", ["lstm"]),
        ("training.optimizer=adam,sgd", "training.optimizer", ["adam", "sgd"]),
        ("data.buckets=null,[[5, 5], [9, 9]]", "data.buckets", [None, [[5, 5], [9, 9]]]),
        ('data.train="a,b"', "data.train", ["a,b"]),
        ("training.sampled_softmax=null,512", "training.sampled_softmax", [None, 512]),
    ],
)
def test_an_axis(text: str, key: str, values: list[Any]) -> None:
    assert parse_axis(text) == (key, values)


def test_an_invalid_axis() -> None:
    for text in ("", "model.cell", "=3", "model.cell="):
        with pytest.raises(ConfigError, match="must be KEY=VALUE"):
            parse_axis(text)
    with pytest.raises(ConfigError, match="named after the values"):
        parse_axis("name=x,y")


def test_a_grid_is_written_and_can_be_written_again(cli: Cli, tiny_config: Path, tmp_path: Path) -> None:
    grid = ["--grid", "model.hidden_size=4,5", "--grid", "training.optimizer=adam,sgd", "--output", tmp_path / "g"]
    result = cli("experiments", "new", tiny_config, *grid)
    assert result.status == 0
    paths = [Path(line) for line in result.out.splitlines()]
    combinations = [(size, optimizer) for size in (4, 5) for optimizer in ("adam", "sgd")]
    assert [path.name for path in paths] == [f"tiny_hidden_size-{s}_optimizer-{o}.json" for s, o in combinations]
    configs = [load_config(path) for path in paths]
    assert [(c.model.hidden_size, c.training.optimizer) for c in configs] == combinations
    assert all(config.name == path.stem for config, path in zip(configs, paths, strict=True))
    assert all(config.model.embedding_size == 8 for config in configs)
    before = [path.read_bytes() for path in paths]
    assert cli("experiments", "new", tiny_config, *grid).out == result.out
    assert [path.read_bytes() for path in paths] == before
    paths[0].write_bytes(before[0].replace(b'"seed": 3', b'"seed": 4'))
    assert "already holds another experiment" in cli("experiments", "new", tiny_config, *grid).error_message
    message = cli("experiments", "new", tiny_config, *grid[:-1], paths[0]).error_message
    assert f"{paths[0]} could not be written: File exists" in message


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ([], "a grid needs at least one setting"),
        (["--grid", "model.hiden_size=3"], "hidden_size"),
        (["--grid", "model.hidden_size=3,0"], "--grid model.hidden_size=0: model.hidden_size must be greater than 0"),
        (["--grid", "model.hidden_size=3,3"], "list each value once"),
        (["--grid", "seed=" + ",".join(map(str, range(2000)))], "2,000 experiments, and the maximum is 1,000"),
    ],
)
def test_an_invalid_grid(cli: Cli, tiny_config: Path, tmp_path: Path, grid: list[str], message: str) -> None:
    folder = tmp_path / "grid"
    assert message in cli("experiments", "new", tiny_config, *grid, "--output", folder).error_message
    assert not folder.exists()


def test_a_table_of_runs(cli: Cli, run_copy: Path, tiny_run: Path) -> None:
    interrupted = run_copy.with_name("2030-01-01_00-00-00_other")
    run_copy.rename(interrupted)
    (interrupted / "end.json").unlink()
    metrics = interrupted / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    kept = [line for line in lines if line["step"] <= 10]
    metrics.write_text("".join(json.dumps(line) + "\n" for line in kept) + '{"step": 15, "ki', encoding="utf-8")
    validation = next(line for line in kept if line["kind"] == "validation")
    result = cli("experiments", "list", "--results", interrupted.parent)
    assert result.status == 0
    _, row = result.out.splitlines()
    expected = [interrupted.name, "conversation", "interrupted", "10", "20", f"{validation['perplexity']:,.2f}"]
    assert row.split()[:6] == expected
    (row,) = map(json.loads, cli("experiments", "list", "--results", tiny_run.parent, "--json").out.splitlines())
    assert (row["name"], row["state"], row["step"], row["steps"]) == (tiny_run.name, "finished", 20, 20)
    with Run(interrupted).lock():
        assert " training " in cli("experiments", "list", "--results", interrupted.parent).out
    assert "no runs in" in cli("experiments", "list", "--results", interrupted).err


def test_figures_of_a_comparison_by_hand(run_copy: Path) -> None:
    train = {"kind": "train", "seconds": 1.8, "tokens": 90}
    lines = [
        {"step": 5, "loss": 3.0, **train},
        {"step": 5, "loss": 2.5, "kind": "validation"},
        {"step": 10, "loss": 2.0, **train},
        {"step": 10, "loss": 2.75, "kind": "validation"},
    ]
    (run_copy / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    figures = {name: values[0] for name, values in compare([Run(run_copy)]).figures.items()}
    assert figures == {
        "state": "finished",
        "steps": 20,
        "initialized from": None,
        "best validation loss (nats per token)": 2.5,
        "best validation perplexity": 12.18,
        "reached at step": 5,
        "last training loss": 2.0,
        "target tokens per second": 50,
        "hours of training": 0.001,
    }


def test_runs_side_by_side(cli: Cli, run_copy: Path, tmp_path: Path) -> None:
    import shutil

    other = run_copy.with_name("other")
    shutil.copytree(run_copy, other)
    changes = [f"--set=training.{change}" for change in ("steps=22", "learning_rate=0.01", "sample_replies=0")]
    cli("train", "--resume", other, *changes)
    result = cli("experiments", "compare", run_copy, other, "--json", tmp_path / "c.json")
    assert result.status == 0
    rows = {line.split("  ")[0]: line.split()[-2:] for line in result.out.splitlines() if line.strip()}
    assert rows["training.learning_rate"] == ["0.05", "0.01"]
    assert rows["training.steps"] == rows["steps"] == ["20", "22"]
    assert "model.hidden_size" not in rows
    best = min(
        line["loss"]
        for line in map(json.loads, (run_copy / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        if line["kind"] == "validation"
    )
    comparison = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert comparison["figures"]["best validation loss (nats per token)"][0] == pytest.approx(best, abs=1e-3)
    assert "(no setting differs)" in cli("experiments", "compare", run_copy, run_copy).out


def test_a_finished_run_is_resumed_if_steps_were_raised(run_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr("seq2seq_chat.runs.grid._run", lambda command: commands.append(command) or 0)
    config = Run(run_copy).config
    longer = config.model_copy(update={"training": config.training.model_copy(update={"steps": 30})})
    other = config.model_copy(update={"seed": 9})
    experiments = [Experiment(Path(name), c) for name, c in (("a", config), ("b", longer), ("c", other))]
    assert train_all(experiments, run_copy.parent) == 0
    assert [command[4:] for command in commands] == [
        ["b", "--resume", str(run_copy)],
        ["c", "--results", str(run_copy.parent)],
    ]


@pytest.mark.slow
def test_a_grid_is_trained_stopped_and_continued(cli: Cli, tiny_config: Path, tmp_path: Path) -> None:
    """Two experiments: the first is stopped by SIGTERM, then resumed; the third time, both are finished."""
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
        message = process.stderr.read()
    assert process.returncode == 143
    assert "run the same command to continue" in message
    (first,) = list_runs(tmp_path / "results")
    stopped_at = first.checkpoints()[-1][0]
    assert 5 <= stopped_at < 20
    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert f"1 of 2, tiny_seed-3: resuming {first.path}" in again.stderr
    assert f"resuming from step {stopped_at}" in again.stdout
    runs = list_runs(tmp_path / "results")
    assert [run.checkpoints()[-1][0] for run in runs] == [20, 20]
    assert {run.config.seed for run in runs} == {3, 4}
    third = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert third.stderr.count("already trained") == 2


def test_a_signal_during_the_last_step_stops_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finishing:
        def __init__(self, command: list[str]) -> None:
            assert command == ["train"]

        def send_signal(self, number: int) -> None:
            """It has finished."""

        def wait(self) -> int:
            signal.raise_signal(signal.SIGTERM)
            return 0

    monkeypatch.setattr("seq2seq_chat.runs.grid.subprocess.Popen", Finishing)
    assert _run(["train"]) == 128 + signal.SIGTERM
