"""A text that a language model writes block by block in its thread, while another thread reads it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import Empty, SimpleQueue

from seq2seq_chat.config import Decoding
from seq2seq_chat.inference.generator import GeneratedToken, Generator


class TextStream:
    """The continuation of a prompt.

    Args:
        prompt: The text to continue.
        length: Number of tokens.
        decoding: See :meth:`Generator.stream`.
        seed: Of the random numbers.
    """

    def __init__(self, prompt: str, length: int, decoding: Decoding, seed: int) -> None:
        self.seed = seed
        self.future: Future[None] = Future()  # done when the text is complete, cancelled or failed
        self._request = (prompt, length, decoding, seed)
        self._source: Iterator[list[GeneratedToken]] | None = None
        self._blocks: SimpleQueue[list[GeneratedToken] | None] = SimpleQueue()
        self._stopped = threading.Event()
        self.future.add_done_callback(lambda _: self._blocks.put(None))

    def write_block(self, generator: Generator) -> bool:
        """Write the next block; whether the text is complete. Called by the model's thread alone."""
        self._source = self._source or generator.explained_stream(*self._request)
        block = None if self._stopped.is_set() else next(self._source, None)
        if block is None:
            self._source = None  # with the model's states
            self.future.set_result(None)
            return True
        self._blocks.put(block)
        return False

    def read_block(self, timeout: float) -> list[GeneratedToken] | None:
        """Wait for the next block; None at the end of the text.

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
        """Write no further block."""
        self._stopped.set()
        self.future.cancel()
