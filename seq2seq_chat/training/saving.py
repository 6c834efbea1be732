"""Save checkpoints, best weights and snapshots while training continues.

The variables are copied between two steps, which is limited by memory bandwidth; a background thread writes the copy,
which is limited by the disk. A failed write stops training at the next step. The first use of memory is slow, so the
thread allocates the buffers for the copies when training starts, and they are reused.

A copy of a large model would need too much memory beside the model itself. Its files are therefore written between two
steps, into the page cache; the thread only flushes them to the disk and renames them. Weights that are saved twice at
the same step, as a snapshot and as the best ones, are written once and the thread copies the file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from seq2seq_chat.checkpoint.arrays import draft_arrays, write_arrays
from seq2seq_chat.model.variables import VariableView, as_array, by_name, variable_name
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import Draft, copy_file
from seq2seq_chat.system.hardware import free_memory
from seq2seq_chat.training.learner import Learner

MAX_COPY_BYTES = 1e9  # larger models are not copied within the same memory


class BackgroundWriter:
    """Writes variables to files, one after another, in a thread.

    Files of the same step share one copy of each variable. There is never more than one copy: before the variables of a
    later step are copied, :meth:`write` waits until the files of the earlier step are written.

    Args:
        variables: the variables that will be written; memory for their copies is allocated in the background.
    """

    def __init__(self, variables: Sequence[tf.Variable] = ()) -> None:
        self._thread = ThreadPoolExecutor(1, "saving")
        self._queued: list[Callable[[], None]] = []  # until all files of the step are requested
        self._pending: list[Future[None]] = []
        self._step = -1
        self._copies: dict[str, np.ndarray] = {}
        self._copied: set[str] = set()  # names of the copies that hold the values of ``_step``
        self._drafts: list[tuple[Draft, Any]] = []  # of ``_step``, with the names and metadata in each
        on_gpu = any("GPU" in variable.device for variable in variables)  # the copies are in another memory
        self._copies_fit = on_gpu or sum(map(_num_bytes, variables)) <= MAX_COPY_BYTES
        self._allocating = self._thread.submit(self._allocate, variables)

    def write(
        self,
        step: int,
        path: Path,
        variables: Iterable[tf.Variable],
        metadata: Mapping[str, Any],
        on_written: Callable[[], object] = lambda: None,
    ) -> None:
        """Save the variables' current values; the thread calls ``on_written`` once the file exists.

        Raises:
            UserError: an earlier file could not be written, or the disk is full.
        """
        self._allocating.result()
        if step != self._step:
            self.finish()
            self._step = step
        named, metadata = by_name(variables), dict(metadata)
        if self._allocate([variable for name, variable in named.items() if name not in self._copies]):
            for name in named.keys() - self._copied:
                np.copyto(self._copies[name], as_array(named[name]))
            self._copied |= named.keys()
            arrays = {name: self._copies[name] for name in named}
            self._queue(lambda: write_arrays(path, arrays, metadata), on_written)
            return
        contents = (named.keys(), metadata)  # too large to copy: written now, and the thread waits for the disk
        identical = next((draft for draft, drafted in self._drafts if drafted == contents), None)
        if identical is None:
            draft = draft_arrays(path, {name: VariableView(variable) for name, variable in named.items()}, metadata)
            self._queue(draft.publish, on_written)
            self._drafts.append((draft, contents))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._queue(lambda: _copy_published(identical, path), on_written)

    def _queue(self, write: Callable[[], object], on_written: Callable[[], object]) -> None:
        def work() -> None:
            write()
            on_written()

        self._queued.append(work)

    def _allocate(self, variables: Sequence[tf.Variable]) -> bool:
        """Allocate buffers for copies of the variables; returns whether there is enough memory for them."""
        if not self._copies_fit or sum(_num_bytes(variable) for variable in variables) > free_memory() / 2:
            return False
        for variable in variables:
            buffer = np.empty(variable.shape, variable.dtype.as_numpy_dtype)
            buffer.fill(0)  # first use, so that the copy itself is fast
            self._copies[variable_name(variable)] = buffer
        return True

    def poll(self) -> None:
        """Start the queued writes and raise the error of an earlier one, if any; call it after every step."""
        if self._pending and all(future.done() for future in self._pending):
            self._await_pending()
        self._submit_queued()

    def finish(self) -> None:
        """Wait until everything is written.

        Raises:
            UserError: a file could not be written.
        """
        self._submit_queued()
        self._await_pending()

    def _submit_queued(self) -> None:
        """Start the queued writes: not earlier, as they would slow down copies that training waits for."""
        self._pending += [self._thread.submit(work) for work in self._queued]
        self._queued = []

    def _await_pending(self) -> None:
        pending, self._pending = self._pending, []
        if not self._queued:
            self._copied, self._drafts, self._step = set(), [], -1
        wait(pending)  # all of them, even after a failure: nothing is being written when this returns
        for future in pending:
            future.result()


def _copy_published(draft: Draft, path: Path) -> None:
    if not draft.published:  # the file at the draft's path is of an earlier step
        raise UserError(f"could not write {path}, because {draft.path} could not be written")
    copy_file(draft.path, path)


def _num_bytes(variable: tf.Variable) -> int:
    return int(variable.shape.num_elements() * variable.dtype.size)


class Saver:
    """Saves checkpoints, the best weights and snapshots of a run.

    Args:
        metadata: stored in every file.
        keep: number of newest checkpoints to keep.
    """

    def __init__(self, run: Run, learner: Learner, metadata: Mapping[str, Any], keep: int) -> None:
        self._run, self._learner, self.metadata, self._keep = run, learner, dict(metadata), keep
        self._writer = BackgroundWriter([*learner.variables, *learner.loss_scale_variables])
        self.poll, self.finish = self._writer.poll, self._writer.finish
        self.saved_step = -1  # of the newest checkpoint on disk; -1: there is none

    def save_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Save everything needed to resume; ``state`` is what is not in variables."""
        step = self._learner.step
        variables = [*self._learner.variables, *self._learner.loss_scale_variables]

        def on_written() -> None:
            self.saved_step = step
            # later checkpoints were damaged when training resumed; they must not displace valid ones
            checkpoints = [path for other, path in self._run.checkpoints() if other <= step]
            for path in checkpoints[: -self._keep]:
                path.unlink(missing_ok=True)

        metadata = {**self._current_metadata(), **state}
        self._write(self._run.checkpoint_path(step), variables, metadata, on_written)

    def save_best(self) -> None:
        """Save the weights of the best validation."""
        self._write_weights(self._run.best_path)

    def save_snapshot(self) -> None:
        """Save the weights as a snapshot, which is never deleted."""
        self._write_weights(self._run.snapshot_path(self._learner.step))

    def _write_weights(self, path: Path) -> None:
        self._write(path, self._learner.model.trainable_variables, self._current_metadata())

    def _write(self, path: Path, *contents: Any) -> None:
        if self._run.is_gone:  # writing would create a folder with nothing but weights
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._run.path))
        self._writer.write(self._learner.step, path, *contents)

    def _current_metadata(self) -> dict[str, Any]:
        return {"step": self._learner.step, **self.metadata, **self._learner.batches.state}
