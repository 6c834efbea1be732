"""A text that a language model writes block by block in its thread, while another thread reads it."""

from __future__ import annotations

from collections.abc import Iterator

from seq2seq_chat.config import Decoding
from seq2seq_chat.inference.generator import GeneratedToken, Generator
from webui.stream import Stream


class TextStream(Stream[list[GeneratedToken]]):
    """The continuation of a prompt.

    Args:
        prompt: The text to continue.
        length: Number of tokens.
        decoding: See :meth:`Generator.stream`.
        seed: Of the random numbers.
    """

    def __init__(self, prompt: str, length: int, decoding: Decoding, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self._request = (prompt, length, decoding, seed)
        self._source: Iterator[list[GeneratedToken]] | None = None

    def write_block(self, generator: Generator) -> bool:
        """Write the next block; whether the text is complete. Called by the model's thread alone."""
        self._source = self._source or generator.explained_stream(*self._request)
        block = None if self.is_stopped else next(self._source, None)
        if block is None:
            self._source = None  # with the model's states
            self.future.set_result(None)
            return True
        self.write(block)
        return False
