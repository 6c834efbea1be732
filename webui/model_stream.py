"""What a model computes block by block in its thread, while another thread reads it and can stop it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from seq2seq_chat.inference.chatbot import Chatbot
from seq2seq_chat.inference.generator import Generator

Block = TypeVar("Block")


class ModelStream(Generic[Block]):
    """Blocks of a text, or steps of a search.

    Args:
        model_type: What the model is loaded as.
        compute: Returns the blocks, given the loaded model; called in the model's thread.
    """

    def __init__(self, model_type: type[Chatbot] | type[Generator], compute: Callable[[Any], Iterator[Block]]) -> None:
        self.model_type = model_type
        self.future: Future[None] = Future()  # done when all is computed, stopped or failed
        self._compute = compute
        self._source: Iterator[Block] | None = None
        self._blocks: SimpleQueue[Block | None] = SimpleQueue()
        self._stopped = threading.Event()
        self.future.add_done_callback(lambda _: self._blocks.put(None))

    def compute_block(self, model: Any) -> bool:
        """Compute the next block; whether it was the last one. Called by the model's thread alone."""
        self._source = self._source or self._compute(model)
        block = None if self._stopped.is_set() else next(self._source, None)
        if block is None:
            self._source = None  # with the model's states
            self.future.set_result(None)
            return True
        self._blocks.put(block)
        return False

    def read_block(self, timeout: float) -> Block | None:
        """Wait for the next block; None after the last one.

        Raises:
            FutureTimeout: There was none for this many seconds.
            UserError: The model could not be loaded or failed.
        """
        try:
            block = self._blocks.get(timeout=timeout)
        except Empty:
            raise FutureTimeout from None
        if block is None and not self.future.cancelled():
            self.future.result()
        return block

    def stop(self) -> None:
        """Compute no further block."""
        self._stopped.set()
        self.future.cancel()
