"""Saving a run while its training goes on.

What is to be saved is copied between two steps, which takes as long as memory takes; a thread writes the copy, which
takes as long as the disk takes. A write that fails stops the training at the next step. Memory that is used for the
first time costs many times what a copy costs, so the thread fetches it when the training starts, and it is kept.

A copy of a large model would be much memory beside the model itself. So its files are written between two steps, but
only as far as the operating system's own copy of them, or past it where the disk is fast; the thread sees them to
their place. Weights that are wanted twice, as a snapshot and as the best ones, are written once, and the thread copies
the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Optional

import numpy as np
import tensorflow as tf

from seq2seq_chat.atomic import Draft, copy_file
from seq2seq_chat.direct import is_fast
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run
from seq2seq_chat.training.checkpoints import draft_arrays, plain_name, values, write_arrays
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.memory import free_memory

MOST_COPIED = 1e9  # bytes of all variables beside which no copy is kept, where they are in the same memory


class BackgroundWriter:
    """Writes variables to files, one after another, in a thread.

    Several files of the same step share one copy of each variable. Before the variables of a later step are copied, the
    files of the earlier one must be written: there is never more than one copy.

    Args:
        variables: those that will be written; memory for their copies is fetched in the background.
        folder: where, to find out there how large files are best written.
    """

    def __init__(self, variables: Sequence[tf.Variable] = (), folder: Optional[Path] = None) -> None:
        self._thread = ThreadPoolExecutor(1, "saving")
        self._due: list[Callable[[], None]] = []  # what the thread will do once the step's files are all asked for
        self._writing: list[Future[None]] = []
        self._step = -1
        self._copies: dict[str, np.ndarray] = {}
        self._copied: set[str] = set()  # names of those that hold the values of ``_step``
        self._drafted: list[tuple[Draft, Any]] = []  # of ``_step``, with the names and metadata in each
        self._copying = _on_gpu(variables) or sum(_bytes(variable) for variable in variables) <= MOST_COPIED
        self._mode: Literal["wb", "direct"] = "wb"
        self._preparing = self._thread.submit(self._prepare, variables, folder)

    def write(
        self,
        step: int,
        path: Path,
        variables: Iterable[tf.Variable],
        metadata: Mapping[str, Any],
        then: Callable[[], object] = lambda: None,
    ) -> None:
        """Have the variables written as they are now; ``then`` is called in the thread when the file is there.

        Raises:
            UserError: an earlier file could not be written, or there is no room for this one.
        """
        self._preparing.result()
        if step != self._step:
            self.finish()
            self._step = step
        named = {plain_name(variable): variable for variable in variables}
        if self._fetch([variable for name, variable in named.items() if name not in self._copies]):
            self._write_copy(path, named, dict(metadata), then)
        else:
            self._write_draft(path, named, dict(metadata), then)

    def _write_copy(
        self, path: Path, named: dict[str, tf.Variable], metadata: dict[str, Any], then: Callable[[], object]
    ) -> None:
        """Copy the variables, and write the copy in the thread."""
        for name in named.keys() - self._copied:
            np.copyto(self._copies[name], values(named[name]))
        self._copied |= named.keys()
        arrays = {name: self._copies[name] for name in named}
        self._later(lambda: write_arrays(path, arrays, metadata), then)

    def _write_draft(
        self, path: Path, named: dict[str, tf.Variable], metadata: dict[str, Any], then: Callable[[], object]
    ) -> None:
        """Write the variables now, as far as it needs no waiting for the disk; the thread does that."""
        contents = (named.keys(), metadata)
        same = next((draft for draft, drafted in self._drafted if drafted == contents), None)
        if same is None:
            draft = draft_arrays(path, named, metadata, self._mode)
            self._later(draft.publish, then)
            self._drafted.append((draft, contents))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._later(lambda: self._copy(same, path), then)

    def _copy(self, draft: Draft, path: Path) -> None:
        if not draft.published:  # what is at its place is of an earlier step
            raise UserError(f"{path} could not be written, as {draft.path} could not")
        copy_file(draft.path, path, self._mode)

    def _later(self, write: Callable[[], object], then: Callable[[], object]) -> None:
        def work() -> None:
            write()
            then()

        self._due.append(work)

    def _prepare(self, variables: Sequence[tf.Variable], folder: Optional[Path]) -> None:
        if not self._fetch(variables) and folder and is_fast(folder):
            self._mode = "direct"

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
        """After every step: have what was asked for written, and raise what went wrong before, if anything did."""
        if self._writing and all(future.done() for future in self._writing):
            self._end()
        self._begin()

    def finish(self) -> None:
        """Wait until everything is written.

        Raises:
            UserError: a file could not be written; those before it are there, whole.
        """
        self._begin()
        self._end()

    def _begin(self) -> None:
        """The thread's work would slow down the copying and writing that the training waits for, so it comes after."""
        self._writing += [self._thread.submit(work) for work in self._due]
        self._due = []

    def _end(self) -> None:
        writing, self._writing = self._writing, []
        if not self._due:
            self._copied, self._drafted, self._step = set(), [], -1
        wait(writing)  # after a failure, too: nothing is written any more when this returns
        for future in writing:
            future.result()


def _bytes(variable: tf.Variable) -> int:
    return int(variable.shape.num_elements() * variable.dtype.size)


def _on_gpu(variables: Sequence[tf.Variable]) -> bool:
    """Whether a copy of them would be in another memory than theirs."""
    return any("GPU" in variable.device for variable in variables)


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
        self._writer = BackgroundWriter([*learner.variables, *learner.precision_variables], run.path)
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
