"""Builds the graphs of upcoming batches in a thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from seq2seq_chat.training.step import TrainingStep

LOOKAHEAD = 64  # steps; graphs that are first needed later are built when they are needed


class GraphBuilder:
    """While training starts with the graph of the first batch, builds those that the next batches need.

    Args:
        training_step: has the graphs.
        batch: returns the batch of a step; may be called in another thread.
    """

    def __init__(self, training_step: TrainingStep, batch: Callable[[int], Sequence[Any]]) -> None:
        self._training_step, self._batch = training_step, batch
        self._thread: threading.Thread | None = None
        self._stop_request = threading.Event()

    def start(self, steps: Iterable[int]) -> None:
        """Build the graphs of these steps in the order in which they are needed. Only the first call has an effect."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._build, args=[steps], name="graphs")
            self._thread.start()

    def stop(self) -> None:
        """Build no more graphs, and wait for the one that is being built."""
        self._stop_request.set()
        if self._thread is not None:
            self._thread.join()

    def _build(self, steps: Iterable[int]) -> None:
        with contextlib.suppress(Exception):  # raised again when the batch is needed
            for step in steps:
                if self._stop_request.is_set():
                    return
                self._training_step.build(self._batch(step))
