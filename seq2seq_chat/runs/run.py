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
      end.json            how the last training ended; missing if it is running or was killed

An exported model is a folder with ``model.json``, which has the first files of a run and its model in another form.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from seq2seq_chat.config import Config, ConfigError, load_config
from seq2seq_chat.runs.json_lines import append_durably
from seq2seq_chat.runs.lock import hold_lock, is_locked
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import (
    as_user_error,
    atomic_folder,
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


class Run:
    """A run's folder and the files in it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def results(self) -> Path:
        """The folder that contains that of the run."""
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
            if not self.is_exported:
                raise
            raise ConfigError(
                f"{file} is damaged, or a newer version has written it; update seq2seq-chat, restore it from a backup, "
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

    @property
    def metrics_file(self) -> Path:
        """Losses during training."""
        return self.path / "metrics.jsonl"

    @property
    def samples_file(self) -> Path:
        """Replies generated during training."""
        return self.path / "samples.jsonl"

    @property
    def answers_file(self) -> Path:
        """Replies to the same questions by checkpoints; see :mod:`seq2seq_chat.runs.summary`."""
        return self.path / "answers.jsonl"

    @property
    def tensorboard(self) -> Path:
        """Folder of TensorBoard's event files."""
        return self.path / "tensorboard"

    @property
    def history_file(self) -> Path:
        """When and how training was started."""
        return self.path / "history.jsonl"

    @property
    def log_file(self) -> Path:
        """What the training printed."""
        return self.path / "train.log"

    def checkpoint_path(self, step: int) -> Path:
        """File of the checkpoint of a step."""
        return self.path / "checkpoints" / f"{step:010d}.npz"

    def snapshot_path(self, step: int) -> Path:
        """File of the snapshot of a step."""
        return self._snapshot_file(snapshot_name(step))

    @property
    def best_path(self) -> Path:
        """File of the weights of the best validation."""
        return self.path / "checkpoints" / "best.npz"

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

    def lock(self) -> AbstractContextManager[str | None]:
        """Hold the run for training; see :func:`seq2seq_chat.runs.lock.hold_lock`."""
        return hold_lock(self.path)

    def is_locked(self) -> bool:
        """Whether a process is training this run now."""
        return is_locked(self.path)

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

    @property
    def lexicon_file(self) -> Path:
        """The run's copy of ``decoding.lexicon``, if that is set."""
        return self.path / "lexicon.tsv"


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


def create_checks_folder(results: str | Path, config: Config) -> Path:
    """Create a folder below ``results/checks`` for the files of the checks of a configuration.

    Raises:
        UserError: The folder could not be created.
    """
    return create_folder(Path(results, "checks"), config.name)


def create_folder(parent: Path, name: str) -> Path:
    """Create a folder, named after the time and ``name``.

    Raises:
        UserError: The folder could not be created.
    """
    for path in _new_paths(parent, name):
        with as_user_error(path), suppress(FileExistsError):
            path.mkdir(parents=True)
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
        return f"{step // 1_000_000}.{step % 1_000_000 // 100_000}M"
    return f"{step // 1000}k" if step and step % 1000 == 0 else str(step)


def snapshot_step(name: str) -> int:
    """The inverse of :func:`snapshot_name`; -1 for any other name."""
    match = re.fullmatch(r"(\d+)\.(\d)M|(\d+)k|(\d+)", name)
    if not match:
        return -1
    millions, tenths, thousands, units = match.groups()
    if millions:
        return int(millions) * 1_000_000 + int(tenths) * 100_000
    return int(thousands) * 1000 if thousands else int(units)
