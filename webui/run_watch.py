"""Watch the runs of a results folder for all open pages at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from webui.model_stream import KEEP_ALIVE, server_sent_event

INTERVAL = 1.0  # seconds between two looks at the folder
SILENCE = 15.0  # seconds without changes after which a comment is sent


class Changes(NamedTuple):
    """What has changed since a revision."""

    revision: int
    runs: list[dict[str, Any]]  # summaries of new and changed runs
    removed: list[str]  # names of runs


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

    def changes(self, since: int = 0) -> Changes:
        """What has changed since a revision; all runs since revision 0."""
        with self._lock:
            if time.monotonic() - self._looked_at >= INTERVAL:
                self._look()
                self._looked_at = time.monotonic()
            newer = [(name, run) for name, (revision, run) in self._runs.items() if revision > since]
            return Changes(
                self._revision, [run for _, run in newer if run], [name for name, run in newer if run is None]
            )

    def _look(self) -> None:
        current = {run["name"]: run for run in self._summaries()}
        revision = self._revision + 1
        for name in {**self._runs, **current}:
            if self._runs.get(name, (0, None))[1] != current.get(name):
                self._runs[name] = (revision, current.get(name))
                self._revision = revision

    def events(self) -> Iterator[str]:
        """Server-sent events ``runs`` with all runs at first, and then with what has changed, until closed."""
        revision, sent_at = -1, 0.0
        while not self.closed.is_set():
            changes = self.changes(max(revision, 0))
            if changes.revision != revision:
                revision, sent_at = changes.revision, time.monotonic()
                yield server_sent_event("runs", {"runs": changes.runs, "removed": changes.removed})
            elif time.monotonic() - sent_at >= SILENCE:
                sent_at = time.monotonic()
                yield KEEP_ALIVE
            self.closed.wait(INTERVAL)
