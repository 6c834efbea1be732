"""Find runs below a folder of results."""

from __future__ import annotations

import difflib
import os.path
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from seq2seq_chat.runs.run import LATEST, MODEL_FILE, Run, RunError
from seq2seq_chat.text.codec import missing_file


class RunSnapshot(NamedTuple):
    """Weights of a run."""

    run: Run
    snapshot: str | None  # name of a snapshot or "best"; None or "latest" for the newest weights

    def __str__(self) -> str:
        return f"{self.run.name}:{self.snapshot or LATEST}"


def find_snapshot(name: str, results: str | Path = "results") -> RunSnapshot:
    """Find the weights that ``RUN`` or ``RUN:SNAPSHOT`` names; for RUN see :func:`find_run`; it may contain a colon.

    Raises:
        RunError: No run, or more than one, has this name, or it has no such snapshot.
    """
    try:
        result = RunSnapshot(find_run(name, results), None)
    except NoSuchRun:
        run, colon, snapshot = name.rpartition(":")
        if not colon:
            raise
        result = RunSnapshot(find_run(run, results), snapshot)
    result.run.weight_files(result.snapshot)  # raises RunError if there are none
    return result


def find_run(name: str, results: str | Path = "results") -> Run:
    """Find a run by its folder, its name below ``results``, a unique prefix of the name, or "latest".

    The name without its time is enough if it is unique: ``quickstart`` or ``quick`` for
    ``2026-05-04_17-03-22_quickstart``.

    Raises:
        RunError: No run, or more than one, has this name, or its folder is inaccessible.
    """
    results = Path(results)
    if not name:
        raise RunError(f"the name of the run is empty; use its folder, its name below {results}, or {LATEST}")
    try:
        if (Path(name) / "config.json").is_file():
            return Run(name)
    except OSError as error:  # no permission, or too long a name
        raise RunError(f"{name}: {error.strerror}") from error
    if _is_damaged(Path(name)):
        raise RunError(missing_file(Run(name).path, "config.json"))
    runs = list_runs(results)
    with suppress(NoSuchRun):
        return match_run(name, runs)
    with suppress(NoSuchRun):
        damaged = match_run(name, [Run(folder) for folder in _folders(results) if _is_damaged(folder)])
        raise RunError(missing_file(damaged.path, "config.json"))
    if inner := list_runs(name):
        names = ", ".join(run.path.name for run in inner[-5:])
        raise RunError(f"{name} is not a run but a folder of runs ({names}); name one, such as {inner[-1].path}")
    if not runs:
        raise NoSuchRun(
            f"no run {name!r}: there are no runs in {results}; train one, or specify their folder with --results"
        )
    close = difflib.get_close_matches(name, [_without_time(run.path.name) for run in runs], n=1)
    hint = f"did you mean {close[0]}?" if close else f"the newest is {runs[-1].name}"
    start, _, snapshot = name.rpartition(":")
    with suppress(RunError):
        if snapshot and match_run(start, runs):
            hint = f"use {start} with --snapshot {snapshot}"
    raise NoSuchRun(f"no run {name!r} in {results}; {hint}")


class NoSuchRun(RunError):
    """No run has this name."""


def match_run(name: str, runs: Sequence[Run]) -> Run:
    """Find a run in a list, oldest first, by its name, a unique prefix of it, or "latest".

    Raises:
        NoSuchRun: No run has this name.
        RunError: More than one run has this name.
    """
    if not (name and runs):
        raise NoSuchRun(f"no run {name!r}")
    if name == LATEST:
        return runs[-1]
    names = [run.path.name for run in runs]
    matches = (
        [other for other in names if other == name]
        or [other for other in names if _without_time(other) == name]
        or [other for other in names if other.startswith(name) or _without_time(other).startswith(name)]
    )
    if len(matches) > 1:
        listed = ", ".join(matches[:5]) + (", …" if len(matches) > 5 else "")
        raise RunError(f"{name!r} is ambiguous: it matches {len(matches)} runs ({listed}); use a longer prefix")
    if not matches:
        raise NoSuchRun(f"no run {name!r}")
    return runs[names.index(matches[0])]


def list_runs(results: str | Path = "results") -> list[Run]:
    """List the runs in a folder, oldest first; runs without a time in their names come before all others."""
    return [Run(folder) for folder in _folders(results) if _has_config(folder)]


def distinct_names(runs: Sequence[Run]) -> list[str]:
    """The names of the runs' configurations, or the names of their folders if these are not distinct."""
    names = [run.config.name for run in runs]
    return names if len(set(names)) == len(names) else [run.name for run in runs]


def _folders(results: str | Path) -> list[Path]:
    try:
        entries = [entry for entry in Path(results).iterdir() if not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise RunError(f"{results} could not be read: {error.strerror}") from error
    return sorted(entries, key=lambda entry: (_without_time(entry.name) != entry.name, entry))


def _is_damaged(folder: Path) -> bool:
    """Whether a folder was a run or an exported model, but has lost its configuration."""
    names = ("checkpoints", "metrics.jsonl", MODEL_FILE)
    traces = any(os.path.exists(folder / name) for name in names)  # noqa: PTH110  see _has_config
    return traces and not _has_config(folder)


def _has_config(folder: Path) -> bool:
    return os.path.isfile(folder / "config.json")  # noqa: PTH113  Path.is_file fails for an inaccessible folder


def _without_time(name: str) -> str:
    return re.sub(r"^\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_", "", name)
