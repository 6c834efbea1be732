"""Dropout as a function of (seed, step, place)."""

from __future__ import annotations

from typing import Optional, Union

import tensorflow as tf

from seq2seq_chat.model.draws import SomeRows, draw_seed


class Dropout:
    """Drops units while training; drawn without state, so that a resumed run draws the same.

    Args:
        rate: share of units that are set to zero; the others are scaled by 1 / (1 - rate).
        seed: the experiment's seed.
        step: the training step, a scalar integer tensor.
        part: number of the part of the batch.
        rows: which of its rows, where the others are elsewhere.
    """

    def __init__(self, rate: float, seed: int, step: tf.Tensor, part: int = 0, rows: Optional[SomeRows] = None) -> None:
        self._rate, self._seed, self._step = rate, seed, tf.cast(step, tf.int64)
        self._part, self._rows = part, rows

    def of_part(self, part: int, rows: Optional[SomeRows] = None) -> Dropout:
        """The same for another part of the batch, with draws of its own."""
        return Dropout(self._rate, self._seed, self._step, part, rows)

    def __call__(self, x: tf.Tensor, place: str, time: Union[int, tf.Tensor, None] = None) -> tf.Tensor:
        """x: [..., rows, units]. ``place``, and ``time`` inside a loop, tell one use from another within a step."""
        if not self._rate:
            return x
        when = self._step if time is None else self._step + (tf.cast(time, tf.int64) + 1) * 2**40
        seed = draw_seed(self._seed, self._part, place, when)
        if self._rows is None:
            return tf.nn.experimental.stateless_dropout(x, self._rate, seed=seed)
        shape = tf.shape(x)
        whole = tf.ones(tf.concat([shape[:-2], [self._rows.of], shape[-1:]], axis=0))
        mask = self._rows.kept(tf.nn.experimental.stateless_dropout(whole, self._rate, seed=seed), axis=-2)
        return x * tf.ensure_shape(mask, x.shape)


def drop(dropout: Optional[Dropout], x: tf.Tensor, place: str, time: Union[int, tf.Tensor, None] = None) -> tf.Tensor:
    """x with some units dropped, or x itself where nothing is trained."""
    return x if dropout is None else dropout(x, place, time)
