"""Dropout as a function of (seed, step, place)."""

from __future__ import annotations

from typing import Optional, Union

import tensorflow as tf

from seq2seq_chat.model.draws import draw_seed


class Dropout:
    """Drops units while training; drawn without state, so that a resumed run draws the same.

    Args:
        rate: share of units that are set to zero; the others are scaled by 1 / (1 - rate).
        seed: the experiment's seed.
        step: the training step, a scalar integer tensor.
        part: number of the part of the batch.
    """

    def __init__(self, rate: float, seed: int, step: tf.Tensor, part: int = 0) -> None:
        self._rate, self._seed, self._step, self._part = rate, seed, tf.cast(step, tf.int64), part

    def of_part(self, part: int) -> Dropout:
        """The same for another part of the batch, with draws of its own."""
        return Dropout(self._rate, self._seed, self._step, part)

    def __call__(self, x: tf.Tensor, place: str, time: Union[int, tf.Tensor, None] = None) -> tf.Tensor:
        """x: any shape. ``place``, and ``time`` inside a loop, tell one use from another within a step."""
        if not self._rate:
            return x
        when = self._step if time is None else self._step + (tf.cast(time, tf.int64) + 1) * 2**40
        return tf.nn.experimental.stateless_dropout(x, self._rate, seed=draw_seed(self._seed, self._part, place, when))


def drop(dropout: Optional[Dropout], x: tf.Tensor, place: str, time: Union[int, tf.Tensor, None] = None) -> tf.Tensor:
    """x with some units dropped, or x itself where nothing is trained."""
    return x if dropout is None else dropout(x, place, time)
