"""How checkpoints are written, and what else a run records."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.checkpoint.arrays import read_arrays
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.training import saving
from seq2seq_chat.training.experiment import Session, _record_start
from seq2seq_chat.training.saving import BackgroundWriter, Saver
from tests.conftest import Cli, edit_config


def history(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "history.jsonl").read_text(encoding="utf-8").splitlines()]


def end(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "end.json").read_text(encoding="utf-8")))


# the writer


def test_the_values_at_the_call_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The training continues, and changes the variables, while the file is being written."""
    changed, write = threading.Event(), saving.write_arrays

    def late_write(path: Path, arrays: Any, metadata: Any) -> None:
        assert changed.wait(30)
        write(path, arrays, metadata)

    monkeypatch.setattr(saving, "write_arrays", late_write)
    variable, writer, done = tf.Variable([1.0, 2.0], name="w"), BackgroundWriter(), []
    writer.write(5, tmp_path / "a.npz", [variable], {"step": 5}, on_written=lambda: done.append("a"))
    writer.write(5, tmp_path / "b.npz", [variable], {"step": 5})
    variable.assign([7.0, 8.0])
    writer.poll()  # no error so far, and it does not wait
    assert not done
    changed.set()
    writer.finish()
    assert done == ["a"]
    for name in ("a.npz", "b.npz"):
        arrays, metadata = read_arrays(tmp_path / name, ["w"])
        assert arrays["w"].tolist() == [1.0, 2.0]
        assert metadata == {"step": 5}


def test_the_next_step_is_copied_again(tmp_path: Path) -> None:
    variable, writer = tf.Variable([1.0], name="w"), BackgroundWriter()
    for step in (1, 2):
        variable.assign([float(step)])
        writer.write(step, tmp_path / f"{step}.npz", [variable], {})
    writer.finish()
    assert [float(read_arrays(tmp_path / f"{step}.npz", ["w"])[0]["w"][0]) for step in (1, 2)] == [1.0, 2.0]


@pytest.fixture(params=["MAX_COPY_BYTES", "free_memory"])
def large_model(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[tf.Variable, tf.Variable, BackgroundWriter]:
    """A small and a large variable, and a writer for which they are too large to copy, or memory is too small."""
    limits: dict[str, Any] = {"MAX_COPY_BYTES": 150.0, "free_memory": lambda: 6.0}  # bytes
    monkeypatch.setattr(saving, request.param, limits[request.param])
    small, large = tf.Variable([1.0], name="s"), tf.Variable(np.ones(50, np.float32), name="w")
    return small, large, BackgroundWriter([small, large])


def test_a_large_model_is_not_copied(
    tmp_path: Path, large_model: tuple[tf.Variable, tf.Variable, BackgroundWriter]
) -> None:
    """Not even the part that is small enough; yet the files contain the values at the call."""
    small, large, writer = large_model
    writer.write(1, tmp_path / "best.npz", [small], {"step": 1})
    writer.write(1, tmp_path / "snapshots" / "1.npz", [small], {"step": 1})
    writer.write(1, tmp_path / "checkpoint.npz", [small, large], {"step": 1})
    writer.write(1, tmp_path / "other.npz", [small], {"step": 1, "more": 2})
    small.assign([5.0])
    large.assign(np.zeros(50, np.float32))
    assert not writer._copies
    writer.finish()
    expected = {name: {"step": 1} for name in ("best", "snapshots/1", "checkpoint")}
    expected["other"] = {"step": 1, "more": 2}
    for name, metadata in expected.items():
        arrays, saved = read_arrays(tmp_path / f"{name}.npz", ["s"])
        assert (arrays["s"].tolist(), saved) == ([1.0], metadata)
    assert read_arrays(tmp_path / "checkpoint.npz", ["w"])[0]["w"].tolist() == [1.0] * 50
    assert set(tmp_path.rglob("*.*")) == {tmp_path / f"{name}.npz" for name in expected}
    writer.write(2, tmp_path / "best.npz", [small], {"step": 1})  # the same metadata, but values of a later step
    writer.finish()
    found = [read_arrays(tmp_path / f"{name}.npz", ["s"])[0]["s"].tolist() for name in ("best", "snapshots/1")]
    assert found == [[5.0], [1.0]], "files are independent copies"


def test_training_does_not_wait_for_the_disk(
    tmp_path: Path, large_model: tuple[tf.Variable, tf.Variable, BackgroundWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, fsync = threading.Event(), os.fsync

    def late_fsync(descriptor: int) -> None:
        assert reached.wait(30)
        fsync(descriptor)

    monkeypatch.setattr("seq2seq_chat.system.files.os.fsync", late_fsync)
    small, large, writer = large_model
    done: list[str] = []
    writer.write(1, tmp_path / "a.npz", [small, large], {}, on_written=lambda: done.append("a"))
    writer.poll()
    assert not done
    assert not (tmp_path / "a.npz").exists()
    reached.set()
    writer.finish()
    assert done == ["a"]
    assert (tmp_path / "a.npz").exists()


def test_a_failed_write_is_not_replaced_by_an_earlier_file(
    tmp_path: Path, large_model: tuple[tf.Variable, tf.Variable, BackgroundWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot must not contain the best weights of an earlier step."""
    small, _, writer = large_model
    writer.write(1, tmp_path / "best.npz", [small], {"step": 1})
    writer.finish()
    fsync, failures = os.fsync, [OSError(28, "No space left on device")]

    def failing_once(descriptor: int) -> None:
        if failures:
            raise failures.pop()
        fsync(descriptor)

    monkeypatch.setattr("seq2seq_chat.system.files.os.fsync", failing_once)
    small.assign([2.0])
    writer.write(2, tmp_path / "best.npz", [small], {"step": 2})
    writer.write(2, tmp_path / "snapshot.npz", [small], {"step": 2})
    with pytest.raises(UserError, match="No space left"):
        writer.finish()
    writer.poll()  # raised once
    assert [path.name for path in tmp_path.iterdir()] == ["best.npz"]
    assert read_arrays(tmp_path / "best.npz", [])[1] == {"step": 1}


def test_after_a_failure_nothing_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller releases the run, which another process may then train."""
    raised, write = threading.Event(), saving.write_arrays

    def failing_first(path: Path, arrays: Any, metadata: Any) -> None:
        if path.name == "a.npz":
            raise UserError("no")
        raised.wait(0.5)  # without waiting, the error would be raised meanwhile
        write(path, arrays, metadata)

    monkeypatch.setattr(saving, "write_arrays", failing_first)
    variable, writer = tf.Variable([1.0], name="w"), BackgroundWriter()
    for name in ("a.npz", "b.npz"):
        writer.write(1, tmp_path / name, [variable], {})
    with pytest.raises(UserError):
        writer.finish()
    assert (tmp_path / "b.npz").exists()
    raised.set()


# what is recorded


def test_training_records_its_start_and_its_end(tiny_run: Path) -> None:
    (entry,) = history(tiny_run)
    assert entry["step"] == 0
    assert entry["changes"] == {}
    assert entry["environment"]["packages"]["tensorflow"].startswith("2.15")
    assert end(tiny_run)["state"] == "finished"
    assert end(tiny_run)["step"] == 20


def test_the_copy_of_the_lexicon_of_a_new_run_is_no_change(run_copy: Path, tmp_path: Path) -> None:
    run, lexicon = Run(run_copy), tmp_path / "words.tsv"
    lexicon.write_text("cat\tchat\n", encoding="utf-8")
    replacing = {"allow_unknown": True, "replace_unknown": True, "lexicon": str(lexicon)}
    config = run.config.model_copy(update={"decoding": run.config.decoding.model_copy(update=replacing)})
    run.save_config(config)
    assert run.config.decoding.lexicon == str(run_copy / "lexicon.tsv")
    trainer, unused = MagicMock(), MagicMock()
    trainer.state.step = 0
    _record_start(Session(run, config, unused, None, new=True), trainer)
    assert history(run_copy)[-1]["changes"] == {}
    trainer.console.log.assert_not_called()


def test_changed_settings_are_recorded_and_the_best_weights_kept(cli: Cli, run_copy: Path) -> None:
    """On the command line and by hand. With this learning rate, the perplexity that follows is above 1e38."""
    best = Run(run_copy).best_path.read_bytes()
    edit_config(run_copy, "training", learning_rate=2.5)
    result = cli("train", "--resume", run_copy, "--set=training.steps=23", "--set=training.sample_replies=0")
    assert result.status == 0
    assert "changed: training.learning_rate from 0.05 to 2.5" in result.out
    _, second = history(run_copy)
    changes = {"steps": [20, 23], "learning_rate": [0.05, 2.5], "sample_replies": [2, 0]}
    assert (second["step"], second["changes"]) == (20, {f"training.{name}": both for name, both in changes.items()})
    assert Run(run_copy).config.training.learning_rate == 2.5
    assert end(run_copy)["step"] == 23
    validations = [line["loss"] for line in read_json_lines(Run(run_copy).metrics_file) if line["kind"] == "validation"]
    assert validations[-1] > 88 > validations[-2]
    assert Run(run_copy).best_path.read_bytes() == best


def test_the_run_of_a_killed_process_is_taken_over(cli: Cli, run_copy: Path) -> None:
    command = f"""
import os, signal
from seq2seq_chat.runs.run import Run
with Run({str(run_copy)!r}).lock():
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", command], check=False, env={"PYTHONPATH": ":".join(sys.path)})
    holder = json.loads((run_copy / "lock").read_text(encoding="utf-8"))
    result = cli("train", "--resume", run_copy)
    assert result.status == 0
    assert f"process {holder['pid']} on {holder['host']} since {holder['since']} exited without" in result.out
    assert (run_copy / "lock").read_text(encoding="utf-8") == ""


def test_old_checkpoints_are_deleted_but_never_the_newest_valid_ones(tmp_path: Path) -> None:
    """Those of steps 30 and 40 were damaged, so training resumed at 20; until it gets there, they do not count."""
    run, learner = Run(tmp_path), MagicMock(variables=[tf.Variable([1.0], name="w")], loss_scale_variables=[])
    learner.batches.state = {}
    (tmp_path / "config.json").touch()
    (tmp_path / "checkpoints").mkdir()
    for step in (10, 20, 30, 40):
        run.checkpoint_path(step).touch()
    saver = Saver(run, learner, {}, keep=2)
    left = {25: [20, 25, 30, 40], 30: [25, 30, 40], 35: [30, 35, 40], 40: [35, 40], 45: [40, 45]}
    for learner.step, expected in left.items():
        saver.save_checkpoint({})
        saver.finish()
        assert [step for step, _ in run.checkpoints()] == expected


@pytest.mark.slow
def test_a_new_order_is_announced_once(cli: Cli, run_copy: Path) -> None:
    smaller = ["--set", "training.batch_size=12"]
    result = cli("train", "--resume", run_copy, "--set", "training.steps=25", *smaller)
    assert "the batch size has changed, so the samples come in a new order" in result.out
    assert "new order" not in cli("train", "--resume", run_copy, "--set", "training.steps=30").out
