"""The folder of a run: what is in it, how it is made, found and locked.

::

    results/2026-05-04_17-03-22_quickstart/
      config.json         the complete configuration, defaults included
      environment.json    versions and hardware the run was started with
      vocabulary.txt      one word a line
      metrics.jsonl       losses while training, a line each
      samples.jsonl       replies while training, a line each
      checkpoints/        what a killed training goes on from: 0000001000.npz, …
      snapshots/0.5M/     weights kept for ever
      tensorboard/        the same metrics for TensorBoard
      train.log           what the training printed
      history.jsonl       a line for each time a training began: when, where, from which step, with which changes
      end.json            how the last training ended, unless it was killed or goes on
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional, Union

from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.config import Config, load_config
from seq2seq_chat.corpus.vocabulary import Vocabulary
from seq2seq_chat.errors import UserError

CHECKPOINT_NAME = re.compile(r"^(\d{10})\.npz$")
LATEST, BEST = "latest", "best"


class RunError(UserError):
    """A run that does not exist, is ambiguous, incomplete or in use."""


class Run:
    """A run's folder and what is in it."""

    def __init__(self, path: Union[str, Path]) -> None:
        self.path = Path(path)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name

    @property
    def config(self) -> Config:
        """The run's configuration. Raises ConfigError when the file was damaged."""
        return load_config(self.path / "config.json")

    @property
    def vocabulary(self) -> Vocabulary:
        """The run's own copy of the vocabulary. Raises VocabularyError when the file was damaged."""
        return Vocabulary.load(self.path / "vocabulary.txt")

    @property
    def metrics_file(self) -> Path:
        """Losses while training."""
        return self.path / "metrics.jsonl"

    @property
    def samples_file(self) -> Path:
        """Replies while training."""
        return self.path / "samples.jsonl"

    @property
    def tensorboard(self) -> Path:
        """Event files."""
        return self.path / "tensorboard"

    @property
    def log_file(self) -> Path:
        """What the training printed."""
        return self.path / "train.log"

    def checkpoint_path(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        return self.path / "checkpoints" / f"{step:010d}.npz"

    def snapshot_path(self, step: int) -> Path:
        """Where the snapshot of a step lies."""
        return self.path / "snapshots" / snapshot_name(step) / "weights.npz"

    @property
    def best_path(self) -> Path:
        """Where the weights of the lowest validation loss lie."""
        return self.path / "checkpoints" / "best.npz"

    def checkpoints(self) -> list[tuple[int, Path]]:
        """(step, file) of every checkpoint, oldest first."""
        with contextlib.suppress(FileNotFoundError):
            found = [(CHECKPOINT_NAME.match(entry.name), entry) for entry in (self.path / "checkpoints").iterdir()]
            return sorted((int(match[1]), entry) for match, entry in found if match)
        return []

    def snapshots(self) -> list[str]:
        """Names of the snapshots, earliest first."""
        with contextlib.suppress(FileNotFoundError):
            entries = [entry for entry in (self.path / "snapshots").iterdir() if (entry / "weights.npz").is_file()]
            return [entry.name for entry in sorted(entries, key=lambda entry: snapshot_step(entry.name))]
        return []

    def weight_files(self, snapshot: Optional[str] = None) -> list[Path]:
        """Files to load weights from, the preferred one first; the others serve when it is damaged.

        Args:
            snapshot: the name of a snapshot, "best" for the lowest validation loss, None or "latest" for the newest.

        Raises:
            RunError: nothing was saved yet, or there is no such snapshot.
        """
        if snapshot is None or snapshot == LATEST:
            saved = self.checkpoints() + [(snapshot_step(name), self._snapshot_file(name)) for name in self.snapshots()]
            if not saved:
                remedy = (
                    "wait until its training has saved one" if self.is_locked() else "its training ended before one"
                )
                raise RunError(f"run {self.name} has no checkpoint yet; {remedy}")
            return [path for _, path in sorted(saved, key=lambda entry: entry[0], reverse=True)]
        if snapshot == BEST and self.best_path.is_file():
            return [self.best_path]
        if snapshot in self.snapshots():
            return [self._snapshot_file(snapshot)]
        names = [*self.snapshots(), *([BEST] if self.best_path.is_file() else []), LATEST]
        raise RunError(f"run {self.name} has no snapshot {snapshot!r}; there are: {', '.join(names)}")

    def _snapshot_file(self, name: str) -> Path:
        return self.path / "snapshots" / name / "weights.npz"

    @contextlib.contextmanager
    def lock(self) -> Iterator[Optional[str]]:
        """Hold the run for training. The lock ends with the process, however that ends.

        Yields:
            who held it before and was ended without letting it go; None where nobody was.

        Raises:
            RunError: another process holds it; the message says which and since when.
        """
        try:
            file = open(self.path / "lock", "a+", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise RunError(f"run {self.name} cannot be trained: {self.path / 'lock'}: {error.strerror}") from None
        with file:
            try:
                _lock_file(file.fileno())
            except BlockingIOError:
                raise RunError(
                    f"run {self.name} is being trained by {_holder(self.path / 'lock')}; wait for it or stop it first"
                ) from None
            except OSError as error:
                raise RunError(f"run {self.name} cannot be locked: {error.strerror}; move it to a local disk") from None
            left_behind = _holder(self.path / "lock") if (self.path / "lock").stat().st_size else None
            file.truncate(0)
            holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
            with contextlib.suppress(OSError):  # a full disk has no room for this; the lock itself needs none
                os.write(file.fileno(), json.dumps(holder).encode())
            try:
                yield left_behind
            finally:
                file.truncate(0)

    def tidy(self) -> None:
        """Delete what a killed training left half written; for whoever holds the lock."""
        for folder in (self.path, self.path / "checkpoints", *(self.path / "snapshots").glob("*")):
            for path in folder.glob(".*.tmp"):
                path.unlink(missing_ok=True)

    def is_locked(self) -> bool:
        """Whether a process is training this run now."""
        try:
            with open(self.path / "lock", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def record_start(self, entry: Mapping[str, Any]) -> None:
        """Note that a training begins: it has no end yet."""
        (self.path / "end.json").unlink(missing_ok=True)
        with open(self.path / "history.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"time": time.strftime("%Y-%m-%d %H:%M:%S"), **entry}) + "\n")

    def record_end(self, state: str, step: int, reason: Optional[str] = None) -> None:
        """Note how a training ended: "finished", "interrupted" or "failed", at which step, and why."""
        end = {"state": state, "step": step, "reason": reason, "time": time.strftime("%Y-%m-%d %H:%M:%S")}
        with atomic_write(self.path / "end.json") as file:
            file.write(json.dumps(end) + "\n")

    def save_config(self, config: Config) -> None:
        """Write the configuration whole."""
        with atomic_write(self.path / "config.json") as file:
            file.write(config.to_json())


def create_run(results: Union[str, Path], config: Config, vocabulary: Vocabulary, environment: dict[str, Any]) -> Run:
    """Make the folder of a new run, named after the time and the experiment; it appears complete or not at all."""
    results = Path(results)
    try:
        results.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=results))
    except OSError as error:
        raise RunError(f"{results}: no run can be made here: {error.strerror}; choose another --results") from None
    try:
        temporary.chmod(0o755)
        run = Run(temporary)
        run.save_config(config)
        vocabulary.save(temporary / "vocabulary.txt")
        with atomic_write(temporary / "environment.json") as file:
            file.write(json.dumps(environment, indent=2) + "\n")
        for folder in ("checkpoints", "snapshots"):
            (temporary / folder).mkdir()
        base = time.strftime("%Y-%m-%d_%H-%M-%S_") + config.name
        for attempt in range(1, 1000):
            path = results / (base if attempt == 1 else f"{base}-{attempt}")
            with contextlib.suppress(OSError):  # another run of the same name was started in this second
                temporary.rename(path)
                return Run(path)
        raise RunError(f"{results}: a thousand runs called {base}")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def create_checks_folder(results: Union[str, Path], config: Config) -> Path:
    """A folder for what the checks of a configuration write, below the runs and never taken for one."""
    base = Path(results) / "checks" / (time.strftime("%Y-%m-%d_%H-%M-%S_") + config.name)
    for attempt in range(1, 1000):
        path = base if attempt == 1 else base.with_name(f"{base.name}-{attempt}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(f"{path}: cannot be made: {error.strerror}; choose another --results") from None
    raise RunError(f"{base}: a thousand folders of this name")


def find_run(wanted: str, results: Union[str, Path] = "results") -> Run:
    """The run a person means: a folder, a name below ``results``, a unique beginning of one, or "latest".

    A name without its time will do as well: ``quickstart`` for ``2026-05-04_17-03-22_quickstart``, where it is unique.

    Raises:
        RunError: there is no such run, or there are several.
    """
    results = Path(results)
    if not wanted:
        raise RunError(f"no run is named; write its folder, the name of one below {results}, or {LATEST}")
    if (Path(wanted) / "config.json").is_file():
        return Run(wanted)
    runs = list_runs(results)
    if not runs:
        raise RunError(f"no run {wanted!r}: none is below {results}; train one, or name its folder with --results")
    if wanted == LATEST:
        return runs[-1]
    names = [run.name for run in runs]
    candidates = (
        [name for name in names if name == wanted]
        or [name for name in names if name.startswith(wanted)]
        or [name for name in names if _without_time(name) == wanted]
    )
    if len(candidates) > 1:
        listed = ", ".join(candidates[:5]) + (", …" if len(candidates) > 5 else "")
        raise RunError(f"{wanted!r} may be any of {len(candidates)} runs: {listed}; write more of the name")
    if not candidates:
        raise RunError(f"no run {wanted!r} below {results}; the newest there is {names[-1]}")
    return Run(results / candidates[0])


def list_runs(results: Union[str, Path] = "results") -> list[Run]:
    """All runs below a folder, oldest first; where a name tells no time, before all others."""
    try:
        entries = [entry for entry in Path(results).iterdir() if not entry.name.startswith(".")]
    except OSError:
        return []
    entries.sort(key=lambda entry: (_without_time(entry.name) != entry.name, entry))
    return [Run(entry) for entry in entries if (entry / "config.json").is_file()]


def snapshot_name(step: int) -> str:
    """500000 → "0.5M", 2000 → "2k", 150 → "150"."""
    if step and step % 100_000 == 0:
        return f"{step // 1_000_000}.{step % 1_000_000 // 100_000}M"
    return f"{step // 1000}k" if step and step % 1000 == 0 else str(step)


def snapshot_step(name: str) -> int:
    """The inverse of :func:`snapshot_name`; -1 for names that are not of its making."""
    match = re.fullmatch(r"(\d+)\.(\d)M|(\d+)k|(\d+)", name)
    if not match:
        return -1
    millions, tenths, thousands, units = match.groups()
    if millions:
        return int(millions) * 1_000_000 + int(tenths) * 100_000
    return int(thousands) * 1000 if thousands else int(units)


def _without_time(name: str) -> str:
    return re.sub(r"^\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_", "", name)


def _lock_file(descriptor: int) -> None:
    """Lock a file, as a trainer does. Raises BlockingIOError where another trainer holds it.

    Whoever looks whether a run is locked holds its lock for an instant (:meth:`Run.is_locked`), as a web page does
    every few seconds; that must not keep a training from starting.
    """
    for _ in range(20):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.02)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _holder(lock: Path) -> str:
    try:
        holder = json.loads(lock.read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
