"""Dropout with stateless random numbers."""

from __future__ import annotations

import tensorflow as tf

from seq2seq_chat.model.randomness import RandomContext


def dropout(x: tf.Tensor, random: RandomContext | None, purpose: str, time: int | tf.Tensor | None = None) -> tf.Tensor:
    """Set a random share of units to zero and scale the others by 1 / (1 - rate); without a context return x itself.

    Args:
        x: [..., rows, units].
        random: rate and seeds.
        purpose: distinguishes uses within a step.
        time: distinguishes the iterations of a loop.
    """
    if random is None or not random.dropout_rate:
        return x
    seed = random.stateless_seed(purpose, time)
    if random.rows is None:
        return tf.nn.experimental.stateless_dropout(x, random.dropout_rate, seed=seed)
    shape = tf.shape(x)
    ones = tf.ones(tf.concat([shape[:-2], [random.rows.total], shape[-1:]], axis=0))
    mask = random.rows.select(tf.nn.experimental.stateless_dropout(ones, random.dropout_rate, seed=seed), axis=-2)
    return x * tf.ensure_shape(mask, x.shape)
