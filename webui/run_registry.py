"""The runs there are, by name. A name is looked up in a list of what is there, and never made into a path."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Optional, Union

from seq2seq_chat.config import Config
from seq2seq_chat.errors import UserError
from seq2seq_chat.experiments import Summary, summarize
from seq2seq_chat.runs import BEST, LATEST, Run, list_runs

KEPT = 1.0  # seconds for which a listing of the folder is used again


class NotThere(UserError):
    """A run or snapshot that does not exist, or no longer."""


class Catalogue:
    """The runs below a folder, listed anew every second at most."""

    def __init__(self, results: Union[str, Path]) -> None:
        self.results = Path(results)
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._listed = -KEPT
        self._summaries: dict[str, tuple[Any, Summary]] = {}
        self._configs: dict[str, tuple[Any, Config]] = {}

    def runs(self) -> dict[str, Run]:
        """All runs by name, oldest first."""
        with self._lock:
            if time.monotonic() - self._listed >= KEPT:
                found = {run.path.name: run for run in list_runs(self.results)}
                self._runs = {name: run for name, run in found.items() if _can_be_written(name)}
                self._listed = time.monotonic()
            return dict(self._runs)

    def find(self, name: str) -> Run:
        """The run of a name, or the newest for "latest". Raises NotThere where there is none."""
        runs = self.runs()
        if name == LATEST and runs:
            return list(runs.values())[-1]
        run = runs.get(name)
        if run is None or not (run.path / "config.json").is_file():
            raise NotThere(f"There is no run {_short(name)}. It may have been moved or deleted; see the list of runs.")
        return run

    def summaries(self) -> list[Summary]:
        """How all runs stand, newest first."""
        found = [self.summary(run) for run in reversed(self.runs().values())]
        with self._lock:
            self._summaries = {name: self._summaries[name] for name in self._runs if name in self._summaries}
            self._configs = {name: self._configs[name] for name in self._runs if name in self._configs}
        return found

    def summary(self, run: Run) -> Summary:
        """How a run stands; read again only when one of its files has changed."""
        state = (run.is_locked(), *(_signature(run.path / name) for name in ("config.json", "end.json")))
        state += (_signature(run.metrics_file),)
        known = self._summaries.get(run.path.name)
        if known is None or known[0] != state:
            known = self._summaries[run.path.name] = (state, summarize(run))
        return known[1]

    def config(self, run: Run) -> Config:
        """The configuration of a run; read again only when its file has changed. Raises ConfigError."""
        state = _signature(run.path / "config.json")
        known = self._configs.get(run.path.name)
        if known is None or known[0] != state:
            known = self._configs[run.path.name] = (state, run.config)
        return known[1]


def snapshots(run: Run) -> list[str]:
    """What can be asked for instead of the newest weights: the snapshots, earliest first, and "best"."""
    best = [BEST] if run.best_path.is_file() else []
    return [LATEST, *best, *run.snapshots()]


def weights_version(run: Run, snapshot: Optional[str]) -> tuple[Any, ...]:
    """Changes when other weights would be loaded. Raises RunError where there are none."""
    newest = run.weight_files(snapshot)[0]
    return (newest, *(_signature(path) for path in (newest, run.path / "config.json", run.path / "vocabulary.txt")))


def without_paths(message: str, *folders: Path) -> str:
    """A message for a visitor, to whom the server's folders are no business."""
    for folder in folders:
        for path in (folder.absolute(), folder.resolve(), folder):
            message = message.replace(f"{path}/", "").replace(str(path), folder.name)
    return message


def _signature(path: Path) -> Optional[tuple[int, int, int]]:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _can_be_written(name: str) -> bool:
    """Whether a folder's name is text that can be sent and shown."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return len(name) <= 255


def _short(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:57] + "…")
