"""What one thread writes part by part, while another reads it."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

Part = TypeVar("Part")


class Stream(Generic[Part]):
    """Parts of a result; ``future`` is done when it is complete, cancelled or failed."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()
        self._parts: SimpleQueue[Part | None] = SimpleQueue()
        self._stopped = threading.Event()
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
            raise FutureTimeout from None
        if part is None and not self.future.cancelled():
            self.future.result()
        return part

    def stop(self) -> None:
        """Need no further part."""
        self._stopped.set()
        self.future.cancel()

    @property
    def is_stopped(self) -> bool:
        """Whether nobody reads any more."""
        return self._stopped.is_set()
