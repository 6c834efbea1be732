"""Look up runs by name. A name is a key in a listing of the results folder and never becomes a path."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from seq2seq_chat.config import Config
from seq2seq_chat.runs.find import NoSuchRun, list_runs, match_run
from seq2seq_chat.runs.run import BEST, LATEST, Run, snapshot_name
from seq2seq_chat.runs.summary import NOTES_FILE as NOTES
from seq2seq_chat.runs.summary import Summary, summarize
from seq2seq_chat.system.errors import UserError
from webui.model_stream import KEEP_ALIVE, server_sent_event

INTERVAL = 1.0  # seconds between two looks at the folder for pages that follow the runs
SILENCE = 15.0  # seconds without changes after which a comment is sent
LISTING_TTL = 1.0  # seconds for which a listing of the results folder is cached


class NotFoundError(UserError):
    """A run, snapshot or file does not exist."""


class RunRegistry:
    """The runs in a results folder, with cached listings, summaries and configurations."""

    def __init__(self, results: str | Path) -> None:
        self.results = Path(results)
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._names: set[str] = set()  # of all runs so far
        self._listed_at = -LISTING_TTL
        self._summaries: dict[str, tuple[Any, Summary]] = {}
        self._configs: dict[str, tuple[Any, Config]] = {}

    def runs(self) -> dict[str, Run]:
        """All runs by name, oldest first."""
        with self._lock:
            if time.monotonic() - self._listed_at >= LISTING_TTL:
                self._runs = {run.path.name: run for run in list_runs(self.results) if _is_valid_name(run.path.name)}
                self._names.update(self._runs)
                self._listed_at = time.monotonic()
            return dict(self._runs)

    def find(self, name: str) -> Run:
        """Find a run as the command line does: by its name, a unique prefix of it, or ``latest``.

        The name of a run that was deleted is no prefix of another.

        Raises:
            NotFoundError: There is no such run.
            RunError: More than one run has this name.
        """
        with contextlib.suppress(NoSuchRun):
            run = match_run(name, list(self.runs().values()))
            if (run.path.name == name or name not in self._names) and (run.path / "config.json").is_file():
                return run
            self._listed_at = -LISTING_TTL  # the listing is out of date
        shortened = name if len(name) <= 60 else name[:57] + "…"
        raise NotFoundError(f"There is no run {shortened!r}. It may have been moved or deleted; choose another.")

    def summaries(self) -> list[Summary]:
        """Summaries of all runs, newest first."""
        summaries = [self.summary(run) for run in reversed(self.runs().values())]
        with self._lock:
            self._summaries = {name: self._summaries[name] for name in self._runs if name in self._summaries}
            self._configs = {name: self._configs[name] for name in self._runs if name in self._configs}
        return summaries

    def summary(self, run: Run) -> Summary:
        """The summary of a run, cached until one of its files changes."""
        files = (*(run.path / name for name in ("config.json", "end.json", NOTES)), run.metrics_file)
        version = (run.is_locked(), *map(_file_version, files))
        cached = self._summaries.get(run.path.name)
        if cached is None or cached[0] != version:
            cached = self._summaries[run.path.name] = (version, summarize(run))
        return cached[1]

    def config(self, run: Run) -> Config:
        """The configuration of a run, cached until its file changes.

        Raises:
            ConfigError: The configuration is invalid.
        """
        version = _file_version(run.path / "config.json")
        cached = self._configs.get(run.path.name)
        if cached is None or cached[0] != version:
            cached = self._configs[run.path.name] = (version, run.config)
        return cached[1]


class RunWatch:
    """Notices changes of runs, by looking at them at most once an :data:`INTERVAL`, however many readers there are.

    Args:
        summaries: Returns the summaries of all runs, each with its ``name``.
    """

    def __init__(self, summaries: Callable[[], list[dict[str, Any]]]) -> None:
        self.closed = threading.Event()
        self._summaries = summaries
        self._lock = threading.Lock()
        self._looked_at = -INTERVAL
        self._revision = 0
        self._runs: dict[str, tuple[int, dict[str, Any] | None]] = {}  # revision of the change, None for a removed run

    def changes(self, since: int = 0) -> tuple[int, dict[str, Any]]:
        """The current revision, and the runs that are new, changed or removed since one; all runs since revision 0."""
        with self._lock:
            if time.monotonic() - self._looked_at >= INTERVAL:
                current = {run["name"]: run for run in self._summaries()}
                revision = self._revision + 1
                for name in {**self._runs, **current}:
                    if self._runs.get(name, (0, None))[1] != current.get(name):
                        self._runs[name] = (revision, current.get(name))
                        self._revision = revision
                self._looked_at = time.monotonic()
            newer = {name: run for name, (revision, run) in self._runs.items() if revision > since}
            removed = [name for name, run in newer.items() if run is None]
            return self._revision, {"runs": [run for run in newer.values() if run], "removed": removed}

    def events(self, has_left: Callable[[], bool]) -> Iterator[str]:
        """Server-sent events ``runs`` with all runs at first, and then with what has changed, until nobody reads."""
        revision, sent_at = -1, 0.0
        while not (self.closed.is_set() or has_left()):
            newest, changes = self.changes(max(revision, 0))
            if newest != revision:
                revision, sent_at = newest, time.monotonic()
                yield server_sent_event("runs", changes)
            elif time.monotonic() - sent_at >= SILENCE:
                sent_at = time.monotonic()
                yield KEEP_ALIVE
            self.closed.wait(INTERVAL)


def snapshots(run: Run) -> list[str]:
    """The available weights of a run: ``latest``, ``best`` and the snapshots, earliest first."""
    best = [BEST] if run.best_path.is_file() else []
    return [LATEST, *best, *run.snapshots()]


def find_weights(run: Run, snapshot: str | None, step: int | None = None) -> str | None:
    """The name of the weights of a request; None for the newest.

    Args:
        run: The run.
        snapshot: Name of a snapshot, ``best``, ``latest`` or None.
        step: If given, the weights of ``latest`` must be of this step.

    Raises:
        NotFoundError: The run has no weights of this step.
    """
    if snapshot not in (None, LATEST):
        return snapshot
    if step is None or (newest := run.newest_step) in (None, step):
        return None
    if step in run.saved_steps():
        return snapshot_name(step)
    raise NotFoundError(f"run {run.name} has no weights of step {step:,} any more; its newest are of step {newest:,}")


def check_step(run: Run, requested: int | None, loaded: int | None) -> None:
    """Raise NotFoundError if the weights that were loaded are of another step than was requested, if any."""
    if requested not in (None, loaded):
        raise NotFoundError(f"run {run.name} has no weights of step {requested:,} any more; these are of step {loaded}")


def weights_version(run: Run, snapshot: str | None) -> tuple[Any, ...]:
    """A value that changes when loading the run would give another model.

    Raises:
        RunError: The run has no such weights.
    """
    newest = run.weight_files(snapshot)[0]
    return (newest, *map(_file_version, (newest, run.path / "config.json", run.path / "vocabulary.txt")))


def strip_paths(message: str, *folders: Path) -> str:
    """Remove the paths of the server's folders from a message for users; / and . are none, as they reveal nothing."""
    for folder in folders:
        for path in (folder.absolute(), folder.resolve(), folder):
            if path.name:
                start = rf"(?<![\w./-]){re.escape(str(path))}"  # not within a longer path
                message = re.sub(f"{start}/", "", message)
                message = folder.absolute().name.join(re.split(rf"{start}(?![\w-]|\.\w)", message))
    return message


def _file_version(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _is_valid_name(name: str) -> bool:
    """Whether the name of a folder can be sent as UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return len(name) <= 255
