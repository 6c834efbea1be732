"""Random numbers without state: a function of what they are for, and of when."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import tensorflow as tf


class SomeRows(NamedTuple):
    """The rows of a part of a batch that are computed here, where the others are computed on another device.

    Numbers are drawn for the whole part, and each device keeps those of its rows: what is drawn for a sample does not
    depend on how many devices there are.
    """

    first: int
    length: int
    of: int  # rows of the whole part

    def kept(self, drawn: tf.Tensor, axis: int) -> tf.Tensor:
        """What was drawn for the whole part, with its rows along an axis → the same for these rows."""
        return tf.gather(drawn, tf.range(self.first, self.first + self.length), axis=axis)


def draw_seed(seed: int, part: int, place: str, when: tf.Tensor) -> tf.Tensor:
    """The seed of a stateless operation: int64 [2].

    Args:
        seed: the experiment's.
        part: number of the part of the batch.
        place: tells one use from another.
        when: the training step, scalar int64.
    """
    digest = int.from_bytes(hashlib.sha256(f"{seed} {part} {place}".encode()).digest()[:6], "big")
    return tf.stack([tf.constant(digest, tf.int64), when])
