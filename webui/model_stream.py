"""What a thread computes part by part, while another reads it: a text, or the steps of a search."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.generator import Generator

TOO_SLOW = "The model took too long to continue. Please try again."
KEEP_ALIVE = ": keep-alive\n\n"
"""A comment; sending it shows whether the reader has left."""


def server_sent_event(name: str, data: dict[str, Any]) -> str:
    """The text of an event whose data are JSON."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


Part = TypeVar("Part")


class Stream(Generic[Part]):
    """Parts of a result; ``future`` is done when it is complete, cancelled or failed."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()
        self._parts: SimpleQueue[Part | None] = SimpleQueue()
        self._stopped = threading.Event()
        self.has_left: Callable[[], bool] = lambda: False  # whether the client has closed the connection
        self.future.add_done_callback(lambda _: self._parts.put(None))

    def write(self, part: Part) -> None:
        """Add a part."""
        self._parts.put(part)

    def read(self, timeout: float) -> Part | None:
        """Wait for the next part; None at the end.

        Raises:
            FutureTimeout: There was none for this many seconds.
            UserError: The model could not be loaded or failed.
        """
        try:
            part = self._parts.get(timeout=timeout)
        except Empty:
            raise FutureTimeout(TOO_SLOW) from None
        if part is None and not self.future.cancelled():
            self.future.result()
        return part

    def stop(self) -> None:
        """Stop the computation: nobody needs further parts."""
        self._stopped.set()
        self.future.cancel()

    @property
    def is_stopped(self) -> bool:
        """Whether nobody reads any more."""
        return self._stopped.is_set() or self.has_left()


Block = TypeVar("Block")


class ModelStream(Stream[Block], Generic[Block]):
    """The blocks that a model computes.

    Args:
        model_type: What the model is loaded as.
        compute: Returns the blocks, given the loaded model; called in the model's thread.
    """

    def __init__(self, model_type: type[Chatbot] | type[Generator], compute: Callable[[Any], Iterator[Block]]) -> None:
        super().__init__()
        self.model_type = model_type
        self._compute = compute
        self._source: Iterator[Block] | None = None

    def compute_block(self, model: Any) -> bool:
        """Compute the next block; whether there is none. Called by the model's thread alone."""
        self._source = self._source or self._compute(model)
        block = None if self.is_stopped else next(self._source, None)
        if block is None:
            self._source = None  # with the model's states
            self.future.set_result(None)
            return True
        self.write(block)
        return False
