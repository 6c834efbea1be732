"""The folder of a run.

::

    results/2026-05-04_17-03-22_quickstart/
      config.json         the complete configuration, defaults included
      environment.json    versions and hardware
      vocabulary.txt      one word per line; target_vocabulary.txt if the target has its own
      tokenizer.json      subword tokenizer only; target_tokenizer.json if the target has its own
      lexicon.tsv         a copy of decoding.lexicon, if that is set
      metrics.jsonl       losses, one line per log interval or validation
      samples.jsonl       replies generated during training, one line each
      checkpoints/        what training resumes from: 0000001000.npz, …
      snapshots/0.5M/     weights that are kept forever
      tensorboard/        the metrics for TensorBoard
      train.log           what the training printed
      history.jsonl       one line per start: time, environment, step, changed settings, what it was initialized from
      answers.jsonl       replies to the same questions by checkpoints, one line each
      notes.json          a star and a text of people, if there are any
      MODEL_CARD.md       what the model is and what it cannot do, for people; written at the end, and with exports
      end.json            how the last training ended; missing if it is running or was killed

An exported model is a folder with ``model.json``, which has the first files of a run and its model in another form.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from seq2seq_chat.config import Config, ConfigError, load_config
from seq2seq_chat.runs.json_lines import append_durably
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import (
    as_user_error,
    atomic_folder,
    create_parents,
    remove_temporary,
    write_atomically,
    write_json,
)
from seq2seq_chat.text.codec import Codecs

CHECKPOINT_NAME = re.compile(r"^(\d{10})\.npz$")
LATEST, BEST = "latest", "best"
MODEL_FILE = "model.json"  # of an exported model


class RunError(UserError):
    """A run or snapshot is missing, ambiguous or incomplete."""


class LockError(UserError):
    """The lock is held by another process, or the run cannot be locked."""


class Run:
    """A run's folder and the files in it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.metrics_file, self.samples_file = self.path / "metrics.jsonl", self.path / "samples.jsonl"
        self.history_file, self.log_file = self.path / "history.jsonl", self.path / "train.log"
        self.answers_file = self.path / "answers.jsonl"  # see seq2seq_chat.runs.summary
        self.lexicon_file = self.path / "lexicon.tsv"
        self.tensorboard = self.path / "tensorboard"
        self.best_path = self.path / "checkpoints" / "best.npz"  # weights of the best validation

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def results(self) -> Path:
        """The parent folder."""
        return Path(os.path.abspath(self.path)).parent

    @property
    def is_exported(self) -> bool:
        """Whether this is an exported model, which has no checkpoints and no history of its training."""
        return (self.path / MODEL_FILE).is_file()

    @property
    def is_gone(self) -> bool:
        """Whether the folder was deleted or moved."""
        return not (self.path / "config.json").exists()

    @property
    def config(self) -> Config:
        """The configuration, with the run's own copy of the lexicon. Raises ConfigError if the file is damaged."""
        return self.load_config()

    def load_config(self, overrides: Sequence[str] = ()) -> Config:
        """The configuration, changed by ``key=value`` strings; see :attr:`config`."""
        file = self.path / "config.json"
        try:
            config = original = load_config(file, warn=False, is_run=True)
        except ConfigError as error:
            if not self.is_exported or isinstance(error.__cause__, OSError):
                raise
            raise ConfigError(
                f"{file} is damaged, or was written by a newer version; update seq2seq-chat, restore it from a backup, "
                "or export the run again"
            ) from error
        if overrides:
            config = load_config(file, overrides, warn=False, is_run=True)
        stored = original.decoding.lexicon
        if stored is None or config.decoding.lexicon != stored:
            return config
        decoding = config.decoding.model_copy(update={"lexicon": str(self.lexicon_file)})
        return config.model_copy(update={"decoding": decoding})

    @property
    def codecs(self) -> Codecs:
        """Tokenizers and vocabularies. Raises VocabularyError, TokenizerError if a file is missing or damaged."""
        return Codecs.load(self.path, self.config.data)

    def checkpoint_path(self, step: int) -> Path:
        return self.path / "checkpoints" / f"{step:010d}.npz"

    def snapshot_path(self, step: int) -> Path:
        return self._snapshot_file(snapshot_name(step))

    def checkpoints(self) -> list[tuple[int, Path]]:
        """(step, file) of every checkpoint, oldest first."""
        with suppress(FileNotFoundError):
            matches = [(CHECKPOINT_NAME.match(entry.name), entry) for entry in (self.path / "checkpoints").iterdir()]
            return sorted((int(match[1]), entry) for match, entry in matches if match)
        return []

    def snapshots(self) -> list[str]:
        """Names of the snapshots, earliest first."""
        with suppress(FileNotFoundError):
            entries = [entry for entry in (self.path / "snapshots").iterdir() if (entry / "weights.npz").is_file()]
            return [entry.name for entry in sorted(entries, key=lambda entry: snapshot_step(entry.name))]
        return []

    @property
    def newest_step(self) -> int | None:
        """Training steps of the newest weights; None if nothing is saved yet."""
        if self.is_exported:
            with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                return int(json.loads((self.path / MODEL_FILE).read_text(encoding="utf-8"))["step"])
            return None
        return max((step for step, _ in self._saved()), default=None)

    def saved_steps(self) -> list[int]:
        """Training steps of all checkpoints and snapshots, earliest first."""
        return sorted({step for step, _ in self._saved()})

    def _saved(self) -> list[tuple[int, Path]]:
        """(step, file) of every checkpoint and snapshot."""
        return self.checkpoints() + [(snapshot_step(name), self._snapshot_file(name)) for name in self.snapshots()]

    def weight_files(self, snapshot: str | None = None) -> list[Path]:
        """Files to load weights from, in order of preference: each is the fallback if those before it are damaged.

        Args:
            snapshot: The name of a snapshot or of one that a checkpoint's step would have, "best" for the best
                validation, None or "latest" for the newest.

        Raises:
            RunError: Nothing is saved yet, or there is no such snapshot.
        """
        if self.is_exported:
            if snapshot in (None, LATEST):
                return [self.path / MODEL_FILE]
            raise RunError(f"{self.name} is an exported model, which has no snapshots; omit {snapshot!r}")
        if snapshot is None or snapshot == LATEST:
            if not (saved := self._saved()):
                reason = (
                    "wait for its training to save one" if self.is_locked() else "its training ended before saving one"
                )
                raise RunError(f"run {self.name} has no checkpoint yet; {reason}")
            return [path for _, path in sorted(saved, key=lambda entry: entry[0], reverse=True)]
        if snapshot == BEST and self.best_path.is_file():
            return [self.best_path]
        if snapshot in self.snapshots():
            return [self._snapshot_file(snapshot)]
        if checkpoints := [path for step, path in self.checkpoints() if snapshot_name(step) == snapshot]:
            return checkpoints
        names = [*self.snapshots(), *([BEST] if self.best_path.is_file() else []), LATEST]
        raise RunError(f"run {self.name} has no snapshot {snapshot!r}; available: {', '.join(names)}")

    def _snapshot_file(self, name: str) -> Path:
        return self.path / "snapshots" / name / "weights.npz"

    @contextmanager
    def lock(self) -> Iterator[str | None]:
        """Hold the run for training while the block runs; the lock is released when the process ends.

        Yields:
            The previous holder if it ended without releasing the lock, else None.

        Raises:
            LockError: Another process holds the lock, or the run cannot be locked.
        """
        path = self.path / "lock"
        try:
            file = open(path, "a+", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise LockError(f"could not train run {self.name}: {path}: {error.strerror}") from None
        with file:
            try:
                _lock(file.fileno())
            except BlockingIOError:
                holder = _holder(path)
                raise LockError(f"run {self.name} is being trained by {holder}; wait for it or stop it first") from None
            except OSError as error:
                raise LockError(f"could not lock run {self.name}: {error.strerror}; move it to a local disk") from None
            previous = _holder(path) if path.stat().st_size else None
            file.truncate(0)
            this = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
            with suppress(OSError):  # if the disk is full, the lock still holds
                os.write(file.fileno(), json.dumps(this).encode())
            try:
                yield previous
            finally:
                file.truncate(0)

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

    def remove_temporary_files(self) -> None:
        """Delete files that a killed training left incomplete; call it with the lock held."""
        for folder in (self.path, self.path / "checkpoints", *(self.path / "snapshots").glob("*")):
            remove_temporary(folder)

    def record_start(self, entry: Mapping[str, Any]) -> None:
        """Append the start of a training run to the history, then delete end.json of the previous one.

        Raises:
            UserError: The history could not be written.
        """
        append_durably(self.history_file, {"time": time.strftime("%Y-%m-%d %H:%M:%S"), **entry})
        (self.path / "end.json").unlink(missing_ok=True)

    def record_end(self, state: str, step: int, reason: str | None = None) -> None:
        """Record the end of a training run; ``state`` is "finished", "interrupted" or "failed"."""
        end = {"state": state, "step": step, "reason": reason, "time": time.strftime("%Y-%m-%d %H:%M:%S")}
        write_atomically(self.path / "end.json", json.dumps(end) + "\n")

    def save_config(self, config: Config) -> None:
        """Save the configuration, and a copy of its lexicon if the file exists."""
        lexicon = config.decoding.lexicon
        if lexicon is not None and Path(lexicon).is_file() and Path(lexicon) != self.lexicon_file:
            write_atomically(self.lexicon_file, Path(lexicon).read_bytes())
        write_atomically(self.path / "config.json", config.to_json())


def create_run(results: str | Path, config: Config, codecs: Codecs, environment: dict[str, Any]) -> Run:
    """Create the folder of a new run, named after the time and the experiment, atomically.

    Raises:
        UserError: The folder could not be created.
    """
    for path in _new_paths(Path(results), config.name):
        with as_user_error(path), suppress(FileExistsError), atomic_folder(path) as folder:
            Run(folder).save_config(config)
            codecs.save(folder)
            write_json(folder / "environment.json", environment)
            for name in ("checkpoints", "snapshots"):
                (folder / name).mkdir()
            return Run(path)
    raise AssertionError("unreachable")


def create_folder(parent: Path, name: str) -> Path:
    """Create a folder, named after the time and ``name``.

    Raises:
        UserError: The folder could not be created.
    """
    for path in _new_paths(parent, name):
        with as_user_error(path), suppress(FileExistsError):
            create_parents(path)
            path.mkdir()
            return path
    raise AssertionError("unreachable")


def _new_paths(parent: Path, name: str) -> Iterator[Path]:
    """Yield ``parent/TIME_name``, then numbered variants in case it already exists."""
    path = parent / (time.strftime("%Y-%m-%d_%H-%M-%S_") + name)
    yield path
    for number in itertools.count(2):
        yield path.with_name(f"{path.name}-{number}")


def snapshot_name(step: int) -> str:
    """500000 → "0.5M", 2000 → "2k", 150 → "150"."""
    if step and step % 100_000 == 0:
        return f"{step / 1_000_000:.1f}M"
    return f"{step // 1000}k" if step and step % 1000 == 0 else str(step)


def snapshot_step(name: str) -> int:
    """The inverse of :func:`snapshot_name`; -1 for any other name."""
    match = re.fullmatch(r"(\d+)\.(\d)M|(\d+)(k?)", name)
    if not match:
        return -1
    millions, tenths, number, is_thousand = match.groups()
    if millions:
        return int(millions + tenths) * 100_000
    return int(number) * (1000 if is_thousand else 1)


def _lock(descriptor: int) -> None:
    """Lock a file exclusively.

    :meth:`Run.is_locked`, which the web page calls every few seconds, briefly holds a shared lock. Retrying keeps that
    from failing a training run.

    Raises:
        BlockingIOError: Another process holds the lock.
    """
    for _ in range(20):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.02)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
