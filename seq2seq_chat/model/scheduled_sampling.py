"""Scheduled sampling: while training, the decoder is sometimes given its own word instead of the right one.

Source: Bengio, Vinyals, Jaitly & Shazeer, "Scheduled sampling for sequence prediction with recurrent neural networks",
2015. Whether a word is replaced is drawn without state, as a function of (seed, step, part of the batch).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Optional

import tensorflow as tf

from seq2seq_chat.model.draws import SomeRows, draw_seed

Probability = Callable[[tf.Tensor], tf.Tensor]
"""Training step, counted from 0 → the probability of an own word."""


def schedule(kind: str, most: float, steps: float) -> Probability:
    """The probability p of an own word at step i; teacher forcing has ε = 1 - p (section 2.4 of the paper).

    ::

        constant          p = most
        linear            p = most · min(1, i / steps)
        exponential       p = most · (1 - e^(-i / steps))          the paper's ε = k^i with k = e^(-1 / steps)
        inverse_sigmoid   p = most · (1 - k / (k + e^(i / k)))     with k = steps

    Args:
        kind: one of these.
        most: the largest probability.
        steps: how slowly it grows.
    """

    def probability(step: tf.Tensor) -> tf.Tensor:
        i = tf.cast(step, tf.float32)
        if kind == "constant":
            return tf.constant(most)
        if kind == "linear":
            return most * tf.minimum(1.0, i / steps)
        if kind == "exponential":
            return most * -tf.math.expm1(-i / steps)
        if kind == "inverse_sigmoid":
            return most * tf.sigmoid(i / steps - math.log(steps))  # the same, without overflow
        raise ValueError(f"no schedule is called {kind}")

    return probability


class OwnWords:
    """Which words are replaced at one training step.

    Args:
        probability: of an own word, by step.
        seed: the experiment's seed.
        step: the training step, a scalar integer tensor.
        part: number of the part of the batch.
        rows: which of its rows, where the others are elsewhere.
    """

    def __init__(
        self, probability: Probability, seed: int, step: tf.Tensor, part: int = 0, rows: Optional[SomeRows] = None
    ) -> None:
        self._probability, self._seed, self._step = probability, seed, tf.cast(step, tf.int64)
        self._part, self._rows = part, rows

    def of_part(self, part: int, rows: Optional[SomeRows] = None) -> OwnWords:
        """The same for another part of the batch, with draws of its own."""
        return OwnWords(self._probability, self._seed, self._step, part, rows)

    def choose(self, rows: tf.Tensor, steps: int) -> tf.Tensor:
        """Whether each word the decoder is given is its own: bool [steps, rows]. The first one never is."""
        seed = draw_seed(self._seed, self._part, "own words", self._step)
        if self._rows is None:
            draws = tf.random.stateless_uniform([steps, rows], seed)
        else:
            draws = self._rows.kept(tf.random.stateless_uniform([steps, self._rows.of], seed), axis=1)
        return (draws < self._probability(self._step)) & (tf.range(steps) > 0)[:, tf.newaxis]
