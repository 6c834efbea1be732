"""What a run records besides its checkpoints, and how checkpoints get to the disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat import direct
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run
from seq2seq_chat.training import saving
from seq2seq_chat.training.checkpoints import read_arrays
from seq2seq_chat.training.saving import BackgroundWriter

Cli = Callable[..., Any]


def history(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "history.jsonl").read_text(encoding="utf-8").splitlines()]


def end(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "end.json").read_text(encoding="utf-8")))


# the writer


def test_what_is_written_is_what_was_there_when_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training goes on, and changes the variables, while the file is being written."""
    changed, write = threading.Event(), saving.write_arrays

    def late_write(path: Path, arrays: Any, metadata: Any) -> None:
        assert changed.wait(30)
        write(path, arrays, metadata)

    monkeypatch.setattr(saving, "write_arrays", late_write)
    variable, writer, done = tf.Variable([1.0, 2.0], name="w"), BackgroundWriter(), []
    writer.write(5, tmp_path / "a.npz", [variable], {"step": 5}, then=lambda: done.append("a"))
    writer.write(5, tmp_path / "b.npz", [variable], {"step": 5})
    variable.assign([7.0, 8.0])
    writer.check()  # nothing went wrong so far, and it does not wait
    assert not done
    changed.set()
    writer.finish()
    assert done == ["a"]
    for name in ("a.npz", "b.npz"):
        arrays, metadata = read_arrays(tmp_path / name, ["w"])
        assert arrays["w"].tolist() == [1.0, 2.0]
        assert metadata == {"step": 5}


def test_the_next_step_gets_a_copy_of_its_own(tmp_path: Path) -> None:
    variable, writer = tf.Variable([1.0], name="w"), BackgroundWriter()
    for step in (1, 2):
        variable.assign([float(step)])
        writer.write(step, tmp_path / f"{step}.npz", [variable], {})
    writer.finish()
    assert [float(read_arrays(tmp_path / f"{step}.npz", ["w"])[0]["w"][0]) for step in (1, 2)] == [1.0, 2.0]


def test_without_memory_for_a_copy_it_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "free_memory", lambda: 100.0)  # bytes
    variable, writer = tf.Variable(np.arange(50, dtype=np.float32), name="w"), BackgroundWriter()
    writer.write(1, tmp_path / "a.npz", [variable], {})
    variable.assign(np.zeros(50, np.float32))
    writer.finish()
    assert read_arrays(tmp_path / "a.npz", ["w"])[0]["w"].tolist() == list(range(50))


@pytest.fixture(params=[False, True], ids=["slow disk", "fast disk"])
def large_model(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[tf.Variable, tf.Variable, BackgroundWriter]:
    """A small and a large variable, and a writer to which they are too much to be copied."""
    monkeypatch.setattr(saving, "is_fast", lambda folder: request.param and direct.is_fast(folder))
    monkeypatch.setattr(direct, "FAST", 0.0)
    monkeypatch.setattr(direct, "TRIAL", direct.BLOCK)
    monkeypatch.setattr(saving, "MOST_COPIED", 150.0)  # bytes
    small, large = tf.Variable([1.0], name="s"), tf.Variable(np.ones(50, np.float32), name="w")
    return small, large, BackgroundWriter([small, large], tmp_path)


def test_a_large_model_is_not_copied(
    tmp_path: Path, large_model: tuple[tf.Variable, tf.Variable, BackgroundWriter]
) -> None:
    """Not even the part of it that is small enough; yet its files hold what was there when they were asked for."""
    small, large, writer = large_model
    writer.write(1, tmp_path / "best.npz", [small], {"step": 1})
    writer.write(1, tmp_path / "snapshots" / "1.npz", [small], {"step": 1})
    writer.write(1, tmp_path / "checkpoint.npz", [small, large], {"step": 1})
    writer.write(1, tmp_path / "other.npz", [small], {"step": 1, "more": 2})
    small.assign([5.0])
    large.assign(np.zeros(50, np.float32))
    assert not writer._copies
    writer.finish()
    expected = {
        "best": {"step": 1},
        "snapshots/1": {"step": 1},
        "checkpoint": {"step": 1},
        "other": {"step": 1, "more": 2},
    }
    for name, metadata in expected.items():
        arrays, found = read_arrays(tmp_path / f"{name}.npz", ["s"])
        assert (arrays["s"].tolist(), found) == ([1.0], metadata)
    assert read_arrays(tmp_path / "checkpoint.npz", ["w"])[0]["w"].tolist() == [1.0] * 50
    assert set(tmp_path.rglob("*.*")) == {tmp_path / f"{name}.npz" for name in expected}
    writer.write(2, tmp_path / "best.npz", [small], {"step": 1})  # the same words of a later step are other values
    writer.finish()
    assert read_arrays(tmp_path / "best.npz", ["s"])[0]["s"].tolist() == [5.0]
    assert read_arrays(tmp_path / "snapshots" / "1.npz", ["s"])[0]["s"].tolist() == [1.0], (
        "no file shares another's fate"
    )


def test_the_training_does_not_wait_for_the_disk(
    tmp_path: Path,
    large_model: tuple[tf.Variable, tf.Variable, BackgroundWriter],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached, fsync = threading.Event(), os.fsync

    def late_fsync(descriptor: int) -> None:
        assert reached.wait(30)
        fsync(descriptor)

    monkeypatch.setattr("seq2seq_chat.atomic.os.fsync", late_fsync)
    small, large, writer = large_model
    done: list[str] = []
    writer.write(1, tmp_path / "a.npz", [small, large], {}, then=lambda: done.append("a"))
    writer.check()
    assert not done
    assert not (tmp_path / "a.npz").exists()
    reached.set()
    writer.finish()
    assert done == ["a"]
    assert (tmp_path / "a.npz").exists()


def test_a_failure_is_raised_at_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    writer = BackgroundWriter()
    writer.write(1, tmp_path / "file" / "a.npz", [tf.Variable([1.0], name="w")], {})
    with pytest.raises((UserError, OSError)):
        writer.finish()
    writer.check()  # told once


def test_what_could_not_be_written_is_not_copied_from_an_earlier_step(
    tmp_path: Path,
    large_model: tuple[tf.Variable, tf.Variable, BackgroundWriter],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A snapshot is kept for ever; it must not hold the best weights of some step before."""
    small, _, writer = large_model
    writer.write(1, tmp_path / "best.npz", [small], {"step": 1})
    writer.finish()
    fsync, failures = os.fsync, [OSError(28, "No space left on device")]

    def failing_once(descriptor: int) -> None:
        if failures:
            raise failures.pop()
        fsync(descriptor)

    monkeypatch.setattr("seq2seq_chat.atomic.os.fsync", failing_once)
    small.assign([2.0])
    writer.write(2, tmp_path / "best.npz", [small], {"step": 2})
    writer.write(2, tmp_path / "snapshot.npz", [small], {"step": 2})
    with pytest.raises(UserError, match="No space left"):
        writer.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["best.npz"]
    assert read_arrays(tmp_path / "best.npz", [])[1] == {"step": 1}


def test_after_a_failure_nothing_is_written_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was told lets go of the run, which another process may then train."""
    told, write = threading.Event(), saving.write_arrays

    def failing_first(path: Path, arrays: Any, metadata: Any) -> None:
        if path.name == "a.npz":
            raise UserError("no")
        told.wait(0.5)  # whoever does not wait is told meanwhile
        write(path, arrays, metadata)

    monkeypatch.setattr(saving, "write_arrays", failing_first)
    variable, writer = tf.Variable([1.0], name="w"), BackgroundWriter()
    for name in ("a.npz", "b.npz"):
        writer.write(1, tmp_path / name, [variable], {})
    with pytest.raises(UserError):
        writer.finish()
    assert (tmp_path / "b.npz").exists()
    told.set()


# what is recorded


def test_a_training_records_its_beginning_and_its_end(tiny_run: Path) -> None:
    (begun,) = history(tiny_run)
    assert begun["step"] == 0
    assert begun["changes"] == {}
    assert begun["environment"]["packages"]["tensorflow"].startswith("2.15")
    assert end(tiny_run)["state"] == "finished"
    assert end(tiny_run)["step"] == 20


def test_changed_settings_are_recorded(cli: Cli, own_run: Path) -> None:
    changes = ["--set", "training.steps=23", "--set", "training.learning_rate=0.01"]
    answer = cli("train", "--resume", own_run, *changes)
    assert answer.status == 0
    assert "changed: training.learning_rate from 0.05 to 0.01" in answer.out
    _, second = history(own_run)
    assert second["step"] == 20
    assert second["changes"] == {"training.steps": [20, 23], "training.learning_rate": [0.05, 0.01]}
    assert Run(own_run).config.training.learning_rate == 0.01
    assert end(own_run)["step"] == 23


def test_a_training_that_fails_says_why(cli: Cli, own_run: Path) -> None:
    answer = cli("train", "--resume", own_run, "--set", "training.steps=60", "--set", "training.learning_rate=1e30")
    assert answer.status == 1
    assert end(own_run)["state"] == "failed"
    assert "not a finite number" in end(own_run)["reason"]


def test_a_run_left_behind_by_a_killed_process_is_taken_over(cli: Cli, own_run: Path) -> None:
    command = f"""
import os, signal
from seq2seq_chat.runs import Run
with Run({str(own_run)!r}).lock():
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", command], check=False, env={"PYTHONPATH": ":".join(sys.path)})
    holder = json.loads((own_run / "lock").read_text(encoding="utf-8"))
    answer = cli("train", "--resume", own_run, "--set", "training.steps=21")
    assert answer.status == 0
    assert f"process {holder['pid']} on {holder['host']} since {holder['since']} ended without" in answer.out
    assert (own_run / "lock").read_text(encoding="utf-8") == ""


# another batch size


def test_another_batch_size_begins_another_order_that_can_be_resumed(cli: Cli, own_run: Path, tmp_path: Path) -> None:
    """Steps are places in the data; those of other batches are other places. The new order goes on when resumed."""
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(own_run, broken)
    smaller = ["--set", "training.batch_size=12"]
    answer = cli("train", "--resume", own_run, "--set", "training.steps=30", *smaller)
    assert "with another batch size a new order of the samples begins" in answer.out
    cli("train", "--resume", broken, "--set", "training.steps=25", *smaller)
    answer = cli("train", "--resume", broken, "--set", "training.steps=30")
    assert "new order" not in answer.out
    names = [name for name in np.load(own_run / "checkpoints" / "0000000030.npz").files if name != "metadata.json"]
    whole, other = (np.load(run / "checkpoints" / "0000000030.npz") for run in (own_run, broken))
    assert all(whole[name].tobytes() == other[name].tobytes() for name in names)
