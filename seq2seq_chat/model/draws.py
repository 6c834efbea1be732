"""Random numbers without state: a function of what they are for, and of when."""

from __future__ import annotations

import hashlib

import tensorflow as tf


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
