"""Scheduled sampling: in training, the decoder's input is sometimes its own output instead of the target word.

Source: Bengio, Vinyals, Jaitly & Shazeer, "Scheduled sampling for sequence prediction with recurrent neural networks",
2015.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

from seq2seq_chat.model.randomness import RandomContext

Schedule = Callable[[tf.Tensor], tf.Tensor]
"""Training step, counted from 0 → the probability that an input word is the model's own output."""


def sampling_schedule(kind: str, max_probability: float, steps: float) -> Schedule:
    """The sampling probability p at step i; the paper's ε = 1 - p is that of teacher forcing (section 2.4).

    ::

        constant          p = max
        linear            p = max · min(1, i / steps)
        exponential       p = max · (1 - e^(-i / steps))          the paper's ε = k^i with k = e^(-1 / steps)
        inverse_sigmoid   p = max · (1 - k / (k + e^(i / k)))     with k = steps

    Args:
        kind: one of the above.
        max_probability: upper limit of p.
        steps: time scale of its growth.
    """

    def probability(step: tf.Tensor) -> tf.Tensor:
        i = tf.cast(step, tf.float32)
        if kind == "constant":
            return tf.constant(max_probability)
        if kind == "linear":
            return max_probability * tf.minimum(1.0, i / steps)
        if kind == "exponential":
            return max_probability * -tf.math.expm1(-i / steps)
        if kind == "inverse_sigmoid":
            return max_probability * tf.sigmoid(i / steps - math.log(steps))  # without overflow
        raise ValueError(f"unknown schedule: {kind}")

    return probability


def sampling_mask(random: RandomContext, rows: tf.Tensor, steps: int) -> tf.Tensor:
    """Which input words are replaced by the model's own output: bool [steps, rows]; never the first word."""
    seed = random.stateless_seed("own words")  # renaming it would change results
    if random.rows is None:
        numbers = tf.random.stateless_uniform([steps, rows], seed)
    else:
        numbers = random.rows.select(tf.random.stateless_uniform([steps, random.rows.total], seed), axis=1)
    return (numbers < random.sampling_probability) & (tf.range(steps) > 0)[:, tf.newaxis]
