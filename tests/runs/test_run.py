"""Folders of runs: made whole, found by what people write, locked while they are trained."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat import runs
from seq2seq_chat.config import Config, parse_config
from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS, Vocabulary
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import (
    Run,
    RunError,
    create_run,
    find_run,
    list_runs,
    snapshot_name,
    snapshot_step,
)

VOCABULARY = Vocabulary([*SPECIAL_WORDS, "hello", "world"])


def config(name: str = "tiny") -> Config:
    return parse_config({"name": name, "data": {"train": "train.txt"}}, "x")


def at(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Let it be some moment, given as in a run's name."""
    monkeypatch.setattr(runs.time, "strftime", lambda form: f"{moment}_")


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs; the newest was made first."""
    for moment, name in (
        ("2026-03-01_00-00-00", "reddit"),
        ("2025-01-01_00-00-00", "tiny"),
        ("2026-02-01_00-00-00", "tiny"),
    ):
        at(monkeypatch, moment)
        create_run(tmp_path / "results", config(name), VOCABULARY, {})
    return tmp_path / "results"


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# making


def test_a_new_run_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, "2026-05-04_17-03-22")
    run = create_run(tmp_path / "deep" / "results", config(), VOCABULARY, {"python": "3.11"})
    assert run.path == tmp_path / "deep" / "results" / "2026-05-04_17-03-22_tiny"
    assert names(run.path) == ["checkpoints", "config.json", "environment.json", "snapshots", "vocabulary.txt"]
    assert run.config == config()
    assert run.vocabulary.words == VOCABULARY.words
    assert json.loads((run.path / "environment.json").read_text(encoding="utf-8")) == {"python": "3.11"}
    assert names(run.path.parent) == [run.name]
    assert run.path.stat().st_mode & 0o755 == 0o755
    assert run.checkpoints() == run.snapshots() == []


def test_a_new_run_appears_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename, renamed = Path.rename, []

    def observed(self: Path, target: Path) -> Path:
        renamed.append((names(self), list_runs(tmp_path)))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", observed)
    run = create_run(tmp_path, config(), VOCABULARY, {})
    assert renamed == [(["checkpoints", "config.json", "environment.json", "snapshots", "vocabulary.txt"], [])]
    assert names(tmp_path) == [run.name]


def test_runs_of_the_same_second_get_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, "2026-05-04_17-03-22")
    made = [create_run(tmp_path, config(), VOCABULARY, {}).name for _ in range(3)]
    assert made == ["2026-05-04_17-03-22_tiny", "2026-05-04_17-03-22_tiny-2", "2026-05-04_17-03-22_tiny-3"]
    assert names(tmp_path) == made


@pytest.mark.parametrize("fault", [UserError("no room"), OSError("no room"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("where", ["seq2seq_chat.runs.Run.save_config", "seq2seq_chat.runs.Vocabulary.save"])
def test_nothing_is_left_of_a_run_that_could_not_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, where: str
) -> None:
    def fail(*arguments: Any) -> None:
        assert list_runs(tmp_path) == []
        assert len(names(tmp_path)) == 1  # there is something to leave behind
        raise fault

    monkeypatch.setattr(where, fail)
    with pytest.raises(type(fault)):
        create_run(tmp_path, config(), VOCABULARY, {})
    assert names(tmp_path) == []


def test_results_that_are_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="no run can be made here: Not a directory; choose another --results"):
        create_run(tmp_path / "file" / "results", config(), VOCABULARY, {})


# finding


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("2026-02-01_00-00-00_tiny", "2026-02-01_00-00-00_tiny"),
        ("2026-02", "2026-02-01_00-00-00_tiny"),
        ("2025", "2025-01-01_00-00-00_tiny"),
        ("reddit", "2026-03-01_00-00-00_reddit"),
        ("latest", "2026-03-01_00-00-00_reddit"),
    ],
)
def test_find(three: Path, wanted: str, found: str) -> None:
    run = find_run(wanted, three)
    assert run.path == three / found
    assert run.name == found


def test_find_by_folder(three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = three / "2026-02-01_00-00-00_tiny"
    assert find_run(str(folder), tmp_path / "elsewhere").path == folder
    assert find_run(f"{folder}/", tmp_path / "elsewhere").name == folder.name
    monkeypatch.chdir(folder)
    assert find_run(".").name == folder.name
    monkeypatch.chdir(three)
    assert find_run("../results/2026-02-01_00-00-00_tiny").name == folder.name


def test_a_whole_name_is_not_ambiguous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, "2026-05-04_17-03-22")
    first, second = (create_run(tmp_path, config(), VOCABULARY, {}) for _ in range(2))
    assert second.name.startswith(first.name)
    assert find_run(first.name, tmp_path).path == first.path


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("2026", r"'2026' may be any of 2 runs: 2026-02-\S+_tiny, 2026-03-\S+_reddit; write more of the name"),
        ("tiny", r"'tiny' may be any of 2 runs: 2025-\S+_tiny, 2026-02-\S+_tiny; write more of the name"),
        ("red", r"no run 'red' below \S+; the newest there is 2026-03-01_00-00-00_reddit"),
        ("", "no run is named; write its folder, the name of one below .*, or latest"),
        ("../results", "no run '../results' below"),
    ],
)
def test_find_in_vain(three: Path, wanted: str, message: str) -> None:
    with pytest.raises(RunError, match=message):
        find_run(wanted, three)


def test_find_where_there_is_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").touch()  # a run has no empty name
    for wanted in ("", "latest", "tiny"):
        with pytest.raises(RunError, match=r"train one, or name its folder with --results|no run is named"):
            find_run(wanted, tmp_path / "none")


def test_only_runs_are_listed(three: Path) -> None:
    (three / "2027_notes").mkdir()
    (three / "2027.txt").touch()
    (three / ".new-abc").mkdir()
    (three / ".new-abc" / "config.json").touch()
    assert [run.name[:7] for run in list_runs(three)] == ["2025-01", "2026-02", "2026-03"]
    assert find_run("latest", three).name == "2026-03-01_00-00-00_reddit"


def test_a_run_of_another_name_is_not_the_latest(three: Path) -> None:
    (three / "2025-01-01_00-00-00_tiny").rename(three / "my-best")
    assert find_run("my-", three).name == "my-best"
    assert find_run("latest", three).name == "2026-03-01_00-00-00_reddit"


# locking

HOLDER = """
import sys
from seq2seq_chat.runs import Run
with Run(sys.argv[1]).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_trainer_is_told_who_holds_the_run(three: Path) -> None:
    run = find_run("latest", three)
    assert not run.is_locked()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, run.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            assert run.is_locked()
            with pytest.raises(RunError) as refused, run.lock():
                pytest.fail("locked twice")
            for part in (f"process {holder.pid} on {socket.gethostname()} since ", run.name, "wait for it or stop it"):
                assert part in str(refused.value)
            assert run.is_locked()
        finally:
            holder.send_signal(signal.SIGKILL)  # the lock ends with the process, however that ends
            holder.wait(timeout=90)
    assert not run.is_locked()
    with run.lock(), pytest.raises(RunError, match=rf"process {os.getpid()} on"), run.lock():  # not the one before
        pytest.fail("locked twice")
    assert not run.is_locked()


def test_the_lock_of_this_process(three: Path) -> None:
    run = find_run("latest", three)
    with run.lock(), pytest.raises(RunError, match=rf"process {os.getpid()} on"), Run(run.path).lock():
        pytest.fail("locked twice")
    with pytest.raises(ZeroDivisionError), run.lock():
        raise ZeroDivisionError
    assert not run.is_locked()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "5"])
def test_a_lock_that_does_not_tell_its_holder(three: Path, content: str) -> None:
    run = find_run("latest", three)
    with run.lock():
        (run.path / "lock").write_text(content, encoding="utf-8")
        with pytest.raises(RunError, match="is being trained by another process"), run.lock():
            pytest.fail("locked twice")


def test_a_run_that_cannot_be_locked(three: Path) -> None:
    run = find_run("latest", three)
    (run.path / "lock").mkdir()
    with pytest.raises(RunError, match=r"cannot be trained: .*lock: Is a directory"), run.lock():
        pytest.fail("locked a folder")


# checkpoints and snapshots


@given(st.integers(0, 10**9) | st.integers(0, 10**6).map(lambda number: 1000 * number))
def test_the_name_of_a_snapshot_tells_its_step(step: int) -> None:
    assert snapshot_step(snapshot_name(step)) == step
    assert len(snapshot_name(step)) <= len(str(step)) + 2


@pytest.mark.parametrize(
    ("step", "name"),
    [(0, "0"), (150, "150"), (2000, "2k"), (100_000, "0.1M"), (500_000, "0.5M"), (3_000_000, "3.0M")],
)
def test_names_of_snapshots(step: int, name: str) -> None:
    assert snapshot_name(step) == name


@pytest.mark.parametrize("name", ["", "best", "latest", "2kk", "1.25M", "1M", ".5M", "-5", "2k ", "2k\n", "k"])
def test_other_names_have_no_step(name: str) -> None:
    assert snapshot_step(name) == -1


def save(run: Run, *files: str) -> None:
    for name in files:
        path = run.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_weight_files(three: Path) -> None:
    run = find_run("latest", three)
    with pytest.raises(RunError, match="no checkpoint yet; its training ended before one"):
        run.weight_files()
    with run.lock(), pytest.raises(RunError, match="no checkpoint yet; wait until its training has saved one"):
        run.weight_files()
    save(run, "snapshots/2k/weights.npz", "snapshots/0.5M/weights.npz", "snapshots/900/weights.npz")
    (run.path / "snapshots" / "1.0M").mkdir()  # without weights: being written
    assert run.snapshots() == ["900", "2k", "0.5M"]
    assert [path.parent.name for path in run.weight_files()] == ["0.5M", "2k", "900"]
    save(run, "checkpoints/0000002000.npz", "checkpoints/0000010000.npz", "checkpoints/.0000010001.npz.a1b2.tmp")
    assert [step for step, _ in run.checkpoints()] == [2000, 10000]
    for latest in (None, "latest"):
        assert [path.name for path in run.weight_files(latest)[:2]] == ["weights.npz", "0000010000.npz"]
    assert [path.parent.name for path in run.weight_files()] == ["0.5M", "checkpoints", "checkpoints", "2k", "900"]
    assert run.weight_files("2k") == [run.path / "snapshots" / "2k" / "weights.npz"]
    with pytest.raises(RunError, match=r"has no snapshot 'best'; there are: 900, 2k, 0.5M, latest"):
        run.weight_files("best")
    save(run, "checkpoints/best.npz")
    assert run.weight_files("best") == [run.path / "checkpoints" / "best.npz"]


def test_a_snapshot_is_called_by_its_name_alone(three: Path) -> None:
    run, other = list_runs(three)[:2]
    save(run, "snapshots/2k/weights.npz", "weights.npz")
    save(other, "snapshots/2k/weights.npz")
    for name in ("..", ".", "", "/", "2k/", "./2k", "2k/../2k", f"../../{other.name}/snapshots/2k", "../..", "2K"):
        with pytest.raises(RunError, match=r"has no snapshot .*there are: 2k, latest"):
            run.weight_files(name)
    with pytest.raises(RunError):
        run.weight_files(str(run.path / "snapshots" / "2k"))
