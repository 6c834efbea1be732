"""What a model computes block by block in its thread: a text, or the steps of a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.generator import Generator
from webui.stream import Stream

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
