"""Finding a run by what a person writes."""

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from seq2seq_chat.runs.find import distinct_names, find_run, find_snapshot, list_runs
from seq2seq_chat.runs.run import RunError


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("2026-02-01_00-00-00_tiny", "2026-02-01_00-00-00_tiny"),
        ("2026-02", "2026-02-01_00-00-00_tiny"),
        ("2025", "2025-01-01_00-00-00_tiny"),
        ("reddit", "2026-03-01_00-00-00_reddit"),
        ("red", "2026-03-01_00-00-00_reddit"),
        ("latest", "2026-03-01_00-00-00_reddit"),
    ],
)
def test_by_name(results: Path, name: str, expected: str) -> None:
    run = find_run(name, results)
    assert run.path == results / expected
    assert run.name == expected


def test_by_folder(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = results / "2026-02-01_00-00-00_tiny"
    assert find_run(str(folder), tmp_path / "elsewhere").path == folder
    assert find_run(f"{folder}/", tmp_path / "elsewhere").name == folder.name
    monkeypatch.chdir(folder)
    assert find_run(".").name == folder.name
    monkeypatch.chdir(results)
    assert find_run("../results/2026-02-01_00-00-00_tiny").name == folder.name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2026", r"'2026' is ambiguous: it matches 2 runs \(2026-02-\S+_tiny, 2026-03-\S+_reddit\); use a longer"),
        ("tiny", r"'tiny' is ambiguous: it matches 2 runs \(2025-\S+_tiny, 2026-02-\S+_tiny\); use a longer prefix"),
        ("ti", r"'ti' is ambiguous: it matches 2 runs"),
        ("redit", r"no run 'redit' in \S+; did you mean reddit\?$"),
        ("latest:best", r"no run 'latest:best' in \S+; use latest with --snapshot best"),
        ("none:best", r"no run 'none:best' in \S+; the newest is 2026-03-01_00-00-00_reddit"),
        ("", "the name of the run is empty; use its folder, its name below .*, or latest"),
        ("../results", "no run '../results' in"),
        pytest.param("x" * 300, r"^x+: File name too long$", id="too long"),
    ],
)
def test_no_unique_run(results: Path, name: str, message: str) -> None:
    with pytest.raises(RunError, match=message):
        find_run(name, results)


def test_a_folder_of_runs(results: Path, tmp_path: Path) -> None:
    newest = results / "2026-03-01_00-00-00_reddit"
    with pytest.raises(RunError, match=rf"^{results} is not a run but a folder of runs \(.*, such as {newest}$"):
        find_run(str(results), tmp_path / "elsewhere")


def test_no_runs_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").touch()  # the empty name does not mean the current folder
    message = "train one, or specify their folder with --results|name of the run is empty"
    for name in ("", "latest", "tiny"):
        with pytest.raises(RunError, match=message):
            find_run(name, tmp_path / "none")


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in it are not called missing; a folder that does not exist has none."""
    assert list_runs(tmp_path / "none") == []

    refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path))
    monkeypatch.setattr(Path, "iterdir", Mock(side_effect=refused))
    with pytest.raises(RunError, match=f"{tmp_path} could not be read: Permission denied"):
        find_run("x", tmp_path)


def test_only_runs_are_listed(results: Path) -> None:
    (results / "2027_notes").mkdir()
    (results / "2027.txt").touch()
    (results / ".new-abc").mkdir()
    (results / ".new-abc" / "config.json").touch()
    assert [run.name[:7] for run in list_runs(results)] == ["2025-01", "2026-02", "2026-03"]
    assert find_run("latest", results).name == "2026-03-01_00-00-00_reddit"


def test_distinct_names(results: Path) -> None:
    older, tiny, reddit = list_runs(results)
    assert distinct_names([reddit, tiny]) == ["reddit", "tiny"]
    assert distinct_names([older, tiny, reddit]) == [older.name, tiny.name, reddit.name]


def test_names_without_a_time_or_with_a_number(results: Path) -> None:
    (results / "2025-01-01_00-00-00_tiny").rename(results / "my-best")
    assert find_run("my-", results).name == "my-best"
    assert find_run("latest", results).name == "2026-03-01_00-00-00_reddit"
    (results / "my-best").rename(results / "reddit_average")  # begins with the name of another
    assert find_run("reddit", results).name == "2026-03-01_00-00-00_reddit"
    (results / "reddit_average").rename(results / "2026-02-01_00-00-00_tiny-2")  # a complete name is not ambiguous
    assert find_run("2026-02-01_00-00-00_tiny", results).name == "2026-02-01_00-00-00_tiny"


@pytest.mark.parametrize(
    ("name", "folder", "snapshot"),
    [
        ("reddit", "2026-03-01_00-00-00_reddit", None),
        ("reddit:0.5M", "2026-03-01_00-00-00_reddit", "0.5M"),
        ("latest:latest", "2026-03-01_00-00-00_reddit", "latest"),
        ("2025:best", "2025-01-01_00-00-00_tiny", "best"),
        ("{results}/2025-01-01_00-00-00_tiny:best", "2025-01-01_00-00-00_tiny", "best"),
        ("a:best", "a:best", None),  # the entire text is tried first
        ("a:best:0.5M", "a:best", "0.5M"),
        ("a:", "a:best", None),
    ],
)
def test_snapshots(results: Path, name: str, folder: str, snapshot: str | None) -> None:
    (results / "2026-02-01_00-00-00_tiny").rename(results / "a:best")
    for run in list_runs(results):
        for file in (run.best_path, run.checkpoint_path(3), run.snapshot_path(500_000)):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"")
    found = find_snapshot(name.format(results=results), results)
    assert (found.run.path, found.snapshot) == (results / folder, snapshot)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("reddit", "has no checkpoint yet"),
        ("reddit:7", "has no snapshot '7'"),
        ("redit:best", "no run 'redit' in"),
        (":best", "the name of the run is empty"),
        ("2026", "is ambiguous"),
        ("2026:best", "is ambiguous"),
    ],
)
def test_no_such_snapshot(results: Path, name: str, message: str) -> None:
    with pytest.raises(RunError, match=message):
        find_snapshot(name, results)
