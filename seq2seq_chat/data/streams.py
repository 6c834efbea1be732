"""A text as parallel streams, read chunk by chunk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.data.vocabulary import PAD

IntArray = npt.NDArray[np.int32]


class TextBatch(NamedTuple):
    """Consecutive tokens of some streams.

    Attributes:
        inputs: [streams, steps] Token ids.
        targets: [streams, steps] The token after each.
        start: [] The first step; those before it, at the start of a stream, do not exist.
        end: [] The step after the last one; those from it on, at the end of a stream, do not exist.
        is_first: Whether a pass over the text begins, so that there is no state from before.
    """

    inputs: IntArray
    targets: IntArray
    start: np.int32
    end: np.int32
    is_first: np.bool_


class Streams:
    """Divides a text into streams of equal length, which a model reads in parallel, ``forward`` tokens at a time.

    Fewer than ``count`` tokens at the end of the text may belong to no stream. Every pass over the text is the same;
    the last batch of a pass may have fewer tokens, but at least one from which gradients go back ``backward`` tokens.

    Args:
        tokens: [n] The ids of the text.
        count: Number of streams.
        forward: Tokens of each stream from batch to batch.
        backward: Tokens of each stream that gradients go back. A batch begins with tokens of the one before if these
            are more than ``forward``.

    Raises:
        ValueError: A stream is shorter than a batch.
    """

    def __init__(self, tokens: npt.NDArray[Any], count: int, forward: int, backward: int) -> None:
        self._tokens, self._forward, self._steps = tokens, forward, max(forward, backward)
        self.length = max(0, len(tokens) - 1) // count
        if self.length < self._steps:
            raise ValueError(f"{count} streams of {self.length} tokens are shorter than {self._steps} steps")
        self._starts = np.arange(count)[:, np.newaxis] * self.length
        unreached = max(0, forward - backward)  # tokens at the beginning of a batch
        self.batches_per_pass = -(-(self.length - unreached) // forward)

    @property
    def state(self) -> dict[str, int]:
        """What else maps step numbers to batches than the settings: nothing."""
        return {}

    def resume_at(self, step: int, state: Mapping[str, int]) -> bool:
        """The batch of a step is always the same."""
        return True

    def batch(self, step: int) -> TextBatch:
        """The tokens of a training step; a pass begins where ``step`` is a multiple of ``batches_per_pass``."""
        number = step % self.batches_per_pass
        positions = np.arange((number + 1) * self._forward - self._steps, (number + 1) * self._forward)
        exists = (positions >= 0) & (positions < self.length)
        indices = self._starts + np.where(exists, positions, 0)
        inputs, targets = (np.where(exists, self._tokens[indices + shift], PAD).astype(np.int32) for shift in (0, 1))
        start = max(0, -int(positions[0]))
        end = min(self._steps, self.length - int(positions[0]))
        return TextBatch(inputs, targets, np.int32(start), np.int32(end), np.bool_(number == 0))
