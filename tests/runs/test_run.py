"""The folder of a run: creation, checkpoints, snapshots, and its lock."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.runs import run as run_module
from seq2seq_chat.runs.find import list_runs
from seq2seq_chat.runs.json_lines import read_objects
from seq2seq_chat.runs.run import LockError, Run, RunError, create_folder, snapshot_name, snapshot_step
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS
from tests.runs.conftest import STEPS, new_run


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def fixed_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module.time, "strftime", lambda form: "2026-05-04_17-03-22_")


@pytest.mark.usefixtures("fixed_time")
def test_a_new_run_is_complete(tmp_path: Path) -> None:
    run = new_run(tmp_path / "deep" / "results", python="3.11")
    assert run.path == tmp_path / "deep" / "results" / "2026-05-04_17-03-22_tiny"
    assert names(run.path) == ["checkpoints", "config.json", "environment.json", "snapshots", "vocabulary.txt"]
    assert (run.config.name, run.config.training.steps) == ("tiny", STEPS)
    assert run.codecs.source.vocabulary.words == [*SPECIAL_WORDS, "hello"]
    assert json.loads((run.path / "environment.json").read_text(encoding="utf-8")) == {"python": "3.11"}
    assert names(run.path.parent) == [run.name]
    assert run.path.stat().st_mode & 0o755 == 0o755
    assert run.checkpoints() == run.snapshots() == []


def test_a_new_run_appears_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename, renamed = Path.rename, []

    def record(self: Path, target: Path) -> Path:
        renamed.append((names(self), list_runs(tmp_path)))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", record)
    run = new_run(tmp_path)
    assert renamed == [(["checkpoints", "config.json", "environment.json", "snapshots", "vocabulary.txt"], [])]
    assert names(tmp_path) == [run.name]


@pytest.mark.usefixtures("fixed_time")
def test_runs_of_the_same_second_are_numbered(tmp_path: Path) -> None:
    created = [new_run(tmp_path).name for _ in range(3)]
    assert created == ["2026-05-04_17-03-22_tiny", "2026-05-04_17-03-22_tiny-2", "2026-05-04_17-03-22_tiny-3"]
    assert names(tmp_path) == created


@pytest.mark.parametrize("create", [new_run, lambda results: create_folder(results, "x")], ids=["run", "folder"])
def test_results_that_are_a_broken_link_are_named(tmp_path: Path, create: Callable[[Path], object]) -> None:
    (tmp_path / "results").symlink_to(tmp_path / "unmounted" / "results")
    with pytest.raises(UserError, match=r"results/\S+ could not be written: No such file or directory"):
        create(tmp_path / "results")


@pytest.mark.parametrize(
    ("error", "expected"),
    [(UserError("no room"), UserError), (OSError("no room"), UserError), (KeyboardInterrupt(), KeyboardInterrupt)],
    ids=repr,
)
@pytest.mark.parametrize("where", ["seq2seq_chat.runs.run.Run.save_config", "seq2seq_chat.runs.run.Codecs.save"])
def test_a_run_that_could_not_be_created_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, expected: type[BaseException], where: str
) -> None:
    def fail(*arguments: Any) -> None:
        assert list_runs(tmp_path) == []
        assert len(names(tmp_path)) == 1  # there is something to remove
        raise error

    monkeypatch.setattr(where, fail)
    with pytest.raises(expected):
        new_run(tmp_path)
    assert names(tmp_path) == []
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="_tiny could not be written: Not a directory"):
        new_run(tmp_path / "file" / "results")


@given(st.integers(0, 10**9) | st.integers(0, 10**6).map(lambda number: 1000 * number))
def test_the_step_can_be_read_from_a_snapshot_name(step: int) -> None:
    assert snapshot_step(snapshot_name(step)) == step
    assert len(snapshot_name(step)) <= len(str(step)) + 2


def test_names_of_snapshots_and_other_names() -> None:
    names = {0: "0", 150: "150", 2000: "2k", 100_000: "0.1M", 500_000: "0.5M", 3_000_000: "3.0M"}
    assert {step: snapshot_name(step) for step in names} == names
    for name in ("", "best", "latest", "2kk", "1.25M", "1M", ".5M", "-5", "2k ", "2k\n", "k"):
        assert snapshot_step(name) == -1


def touch(run: Run, *files: str) -> None:
    for name in files:
        path = run.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_weight_files_in_order_of_preference(run: Run) -> None:
    with pytest.raises(RunError, match="no checkpoint yet; its training ended before saving one"):
        run.weight_files()
    with run.lock(), pytest.raises(RunError, match="no checkpoint yet; wait for its training to save one"):
        run.weight_files()
    touch(run, "snapshots/2k/weights.npz", "snapshots/0.5M/weights.npz", "snapshots/900/weights.npz")
    (run.path / "snapshots" / "1.0M").mkdir()  # without weights: being written
    assert run.snapshots() == ["900", "2k", "0.5M"]
    assert [path.parent.name for path in run.weight_files()] == ["0.5M", "2k", "900"]
    touch(run, "checkpoints/0000002000.npz", "checkpoints/0000010000.npz", "checkpoints/.0000010001.npz.a1b2.tmp")
    assert [step for step, _ in run.checkpoints()] == [2000, 10000]
    for latest in (None, "latest"):
        assert [path.name for path in run.weight_files(latest)[:2]] == ["weights.npz", "0000010000.npz"]
    assert [path.parent.name for path in run.weight_files()] == ["0.5M", "checkpoints", "checkpoints", "2k", "900"]
    assert run.weight_files("2k") == [run.path / "snapshots" / "2k" / "weights.npz"]
    assert run.weight_files("10k") == [run.checkpoint_path(10_000)]  # not a snapshot
    assert run.saved_steps() == [900, 2000, 10_000, 500_000]
    with pytest.raises(RunError, match=r"has no snapshot 'best'; available: 900, 2k, 0.5M, latest"):
        run.weight_files("best")
    touch(run, "checkpoints/best.npz")
    assert run.weight_files("best") == [run.path / "checkpoints" / "best.npz"]


def test_a_snapshot_is_not_a_path(results: Path) -> None:
    run, other = list_runs(results)[:2]
    touch(run, "snapshots/2k/weights.npz", "weights.npz")
    touch(other, "snapshots/2k/weights.npz")
    for name in ("..", ".", "", "/", "2k/", "./2k", "2k/../2k", f"../../{other.name}/snapshots/2k", "../..", "2K"):
        with pytest.raises(RunError, match=r"has no snapshot .*available: 2k, latest"):
            run.weight_files(name)
    with pytest.raises(RunError):
        run.weight_files(str(run.path / "snapshots" / "2k"))


def test_a_start_follows_an_incomplete_line_of_the_history_or_keeps_the_last_end(run: Run) -> None:
    run.history_file.write_text('{"step": 0, "ho', encoding="utf-8")
    run.record_end("failed", 3)
    run.record_start({"step": 3})
    assert [entry["step"] for entry in read_objects(run.history_file)] == [3]
    assert not (run.path / "end.json").exists()
    run.history_file.unlink()
    run.history_file.mkdir()
    run.record_end("failed", 3)
    with pytest.raises(UserError, match=r"history\.jsonl could not be written"):
        run.record_start({"step": 3})
    assert (run.path / "end.json").exists()


def test_temporary_files_are_removed(run: Run) -> None:
    touch(run, ".config.json.1.tmp", "checkpoints/.0000000002.npz.2.tmp", "snapshots/2k/.weights.npz.3.tmp")
    run.remove_temporary_files()
    assert not list(run.path.rglob(".*.tmp"))


# the lock


HOLDER = """
import sys
from seq2seq_chat.runs.run import Run
with Run(sys.argv[1]).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_holder_is_named_and_the_lock_ends_with_its_process(run: Run) -> None:
    assert not run.is_locked()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, run.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            assert run.is_locked()
            with pytest.raises(LockError) as error, run.lock():
                pytest.fail("locked twice")
            for part in (f"process {holder.pid} on {socket.gethostname()} since ", run.name, "wait for it or stop it"):
                assert part in str(error.value)
            assert run.is_locked()
        finally:
            holder.send_signal(signal.SIGKILL)
            holder.wait(timeout=90)
    assert not run.is_locked()
    with run.lock() as previous:
        assert previous is not None
        assert f"process {holder.pid} on" in previous
        with pytest.raises(LockError, match=rf"process {os.getpid()} on"), run.lock():
            pytest.fail("locked twice")
    assert not run.is_locked()


def test_an_error_ends_the_lock(run: Run) -> None:
    with run.lock() as previous:
        assert previous is None
    with pytest.raises(ZeroDivisionError), run.lock():
        raise ZeroDivisionError
    assert not run.is_locked()


def test_a_lock_without_a_valid_holder_and_a_run_that_cannot_be_locked(run: Run) -> None:
    with run.lock():
        for content in ("", "{", "[]", "{}", "5"):
            (run.path / "lock").write_text(content, encoding="utf-8")
            with pytest.raises(LockError, match="is being trained by another process"), run.lock():
                pytest.fail("locked twice")
    (run.path / "lock").unlink()
    (run.path / "lock").mkdir()
    with pytest.raises(LockError, match=r"could not train run .*lock: Is a directory"), run.lock():
        pytest.fail("locked a folder")


def test_checking_the_lock_does_not_prevent_a_training(run: Run) -> None:
    done = threading.Event()
    checks = []

    def check() -> None:
        while not done.is_set():
            checks.append(run.is_locked())

    with run.lock():  # creates the file
        pass
    thread = threading.Thread(target=check)
    thread.start()
    try:
        for _ in range(300):
            with run.lock():
                pass
    finally:
        done.set()
        thread.join()
    assert checks
