"""Saving a run while its training goes on.

What is to be saved is copied between two steps, which takes as long as memory takes; a thread writes the copy, which
takes as long as the disk takes. A write that fails stops the training at the next step. Memory that is used for the
first time costs many times what a copy costs, so the thread fetches it when the training starts, and it is kept.

A copy of a large model would be much memory for little: its steps take seconds. So it is written between two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from seq2seq_chat.runs import Run
from seq2seq_chat.training.checkpoints import plain_name, write_arrays
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.memory import free_memory

MOST_COPIED = 1e9  # bytes of all variables above which nothing is copied


class BackgroundWriter:
    """Writes variables to files, one after another, in a thread.

    Several files of the same step share one copy of each variable. Before the variables of a later step are copied, the
    files of the earlier one must be written: there is never more than one copy.

    Args:
        variables: those that will be written; memory for their copies is fetched in the background.
    """

    def __init__(self, variables: Sequence[tf.Variable] = ()) -> None:
        self._thread = ThreadPoolExecutor(1, "saving")
        self._writing: list[Future[None]] = []
        self._copies: dict[str, np.ndarray] = {}
        self._copied: set[str] = set()  # names of those that hold the values of ``_step``
        self._step = -1
        self._copying = sum(_bytes(variable) for variable in variables) <= MOST_COPIED
        self._fetching = self._thread.submit(self._fetch, variables)

    def write(
        self,
        step: int,
        path: Path,
        variables: Iterable[tf.Variable],
        metadata: Mapping[str, Any],
        then: Callable[[], object] = lambda: None,
    ) -> None:
        """Copy the variables and have them written; ``then`` is called in the thread when the file is there.

        Where there is no memory for a copy, or it would be too large, the file is written before this returns.

        Raises:
            UserError: an earlier file could not be written, or this one, where it is written at once.
        """
        self._fetching.result()
        if step != self._step:
            self.finish()
            self._step = step
        named = {plain_name(variable): variable for variable in variables}
        if not self._fetch([variable for name, variable in named.items() if name not in self._copies]):
            self.finish()
            _write(path, named, dict(metadata), then)
            return
        for name in named.keys() - self._copied:
            np.copyto(self._copies[name], named[name].numpy())
        self._copied |= named.keys()
        arrays = {name: self._copies[name] for name in named}
        self._writing.append(self._thread.submit(_write, path, arrays, dict(metadata), then))

    def _fetch(self, variables: Sequence[tf.Variable]) -> bool:
        """Memory for copies of variables, if they are to be had and there is plenty."""
        if not self._copying or sum(_bytes(variable) for variable in variables) > free_memory() / 2:
            return False
        for variable in variables:
            buffer = np.empty(variable.shape, variable.dtype.as_numpy_dtype)
            buffer.fill(0)  # touches it
            self._copies[plain_name(variable)] = buffer
        return True

    def check(self) -> None:
        """Raise what went wrong, if anything did; called at every step, it takes no time."""
        if self._writing and all(future.done() for future in self._writing):
            self.finish()

    def finish(self) -> None:
        """Wait until everything is written.

        Raises:
            UserError: a file could not be written; those before it are there, whole.
        """
        writing, self._writing, self._copied, self._step = self._writing, [], set(), -1
        for future in writing:
            future.result()


def _bytes(variable: tf.Variable) -> int:
    return int(variable.shape.num_elements() * variable.dtype.size)


def _write(path: Path, arrays: Mapping[str, Any], metadata: dict[str, Any], then: Callable[[], object]) -> None:
    write_arrays(path, arrays, metadata)
    then()


class Saver:
    """Checkpoints, the best weights and snapshots of a run.

    Args:
        run: where they go.
        learner: what is saved.
        metadata: what is kept with all weights: the words and the corpus they belong to.
        keep: newest checkpoints that are kept.
    """

    def __init__(self, run: Run, learner: Learner, metadata: Mapping[str, Any], keep: int) -> None:
        self._run, self._learner, self._metadata, self._keep = run, learner, metadata, keep
        self._writer = BackgroundWriter([*learner.variables, *learner.precision_variables])
        self.saved_step = 0  # of the newest checkpoint that is on the disk

    def save_checkpoint(self, state: Mapping[str, Any]) -> None:
        """All that a training needs to go on; ``state`` are the numbers that are no variables."""
        step = self._learner.step
        variables = [*self._learner.variables, *self._learner.precision_variables]

        def then() -> None:
            self.saved_step = step
            self._delete_old(step)

        self._writer.write(step, self._run.checkpoint_path(step), variables, self._about() | dict(state), then)

    def save_best(self) -> None:
        """The weights of the lowest validation loss."""
        self._write_weights(self._run.best_path)

    def save_snapshot(self) -> None:
        """Weights that are kept for ever."""
        self._write_weights(self._run.snapshot_path(self._learner.step))

    def check(self) -> None:
        """Raises UserError when a file could not be written."""
        self._writer.check()

    def finish(self) -> None:
        """Wait until everything is written; raises UserError when something could not be."""
        self._writer.finish()

    def settle(self) -> None:
        """Wait until nothing is written any more, for whoever has an error to tell already."""
        with suppress(Exception):
            self._writer.finish()

    def _write_weights(self, path: Path) -> None:
        self._writer.write(self._learner.step, path, self._learner.model.trainable_variables, self._about())

    def _about(self) -> dict[str, Any]:
        return {"step": self._learner.step, **self._metadata, **self._learner.place}

    def _delete_old(self, step: int) -> None:
        # later ones were damaged when this training went on from an earlier one; they must not drive out whole ones
        until_now = [path for other, path in self._run.checkpoints() if other <= step]
        for path in until_now[: -self._keep]:
            path.unlink(missing_ok=True)
