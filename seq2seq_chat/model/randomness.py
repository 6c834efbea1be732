"""Stateless random numbers: functions of (seed, step, purpose), so that a resumed run gets the same ones."""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import tensorflow as tf

from seq2seq_chat.config import Training


class RowSlice(NamedTuple):
    """The rows of a micro-batch that this device computes; other devices compute the rest.

    Random numbers are generated for the entire micro-batch, and each device keeps the ones of its rows, so the numbers
    of a sample do not depend on how many devices there are.
    """

    first: int
    size: int
    total: int  # rows of the micro-batch

    def select(self, numbers: tf.Tensor, axis: int) -> tf.Tensor:
        """Select this slice of random numbers for the entire micro-batch, whose rows lie along ``axis``."""
        return tf.gather(numbers, tf.range(self.first, self.first + self.size), axis=axis)


class RandomContext(NamedTuple):
    """What is random in a training step, and what its random numbers depend on."""

    seed: int  # of the experiment
    step: tf.Tensor  # training step: scalar int64
    dropout_rate: float = 0.0
    sampling_probability: tf.Tensor | None = None  # of scheduled sampling: scalar; None for teacher forcing
    micro_batch: int | tf.Tensor = 0
    micro_batches: int = 1  # of the batch; must be given if micro_batch is a tensor
    rows: RowSlice | None = None  # of the micro-batch; None for all of them

    def stateless_seed(self, purpose: str, time: int | tf.Tensor | None = None) -> tf.Tensor:
        """The seed of a stateless operation: int64 [2].

        Args:
            purpose: distinguishes uses within a step; seeds are derived from it, so renaming it changes results.
            time: distinguishes the iterations of a loop.
        """
        step = self.step if time is None else self.step + (tf.cast(time, tf.int64) + 1) * 2**40
        if isinstance(self.micro_batch, int):
            return tf.stack([tf.constant(self._hash(self.micro_batch, purpose), tf.int64), step])
        hashes = tf.constant([self._hash(number, purpose) for number in range(self.micro_batches)], tf.int64)
        return tf.stack([hashes[self.micro_batch], step])

    def _hash(self, micro_batch: int, purpose: str) -> int:
        digest = hashlib.sha256(f"{self.seed} {micro_batch} {purpose}".encode()).digest()
        return int.from_bytes(digest[:6], "big")


def dropout(x: tf.Tensor, random: RandomContext | None, purpose: str, time: int | tf.Tensor | None = None) -> tf.Tensor:
    """Set a random share of units to zero and scale the others by 1 / (1 - rate); without a context return x itself.

    Args:
        x: [..., rows, units].
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


def sampling_probability(settings: Training, step: tf.Tensor) -> tf.Tensor | None:
    """The probability p that an input word is the model's own output at step i; None without scheduled sampling.

    ::

        constant          p = max
        linear            p = max · min(1, i / steps)
        exponential       p = max · (1 - e^(-i / steps))          the paper's ε = k^i with k = e^(-1 / steps)
        inverse_sigmoid   p = max · (1 - k / (k + e^(i / k)))     with k = steps

    The paper's ε = 1 - p is the probability of teacher forcing (section 2.4).

    Args:
        settings: the schedule, its maximum, and the time scale of its growth.
        step: training step, counted from 0: scalar integer.
    """
    kind, maximum = settings.scheduled_sampling, settings.scheduled_sampling_probability
    i, steps = tf.cast(step, tf.float32), float(settings.scheduled_sampling_steps)
    if kind == "none":
        return None
    if kind == "constant":
        return tf.constant(maximum)
    if kind == "linear":
        return maximum * tf.minimum(1.0, i / steps)
    if kind == "exponential":
        return maximum * -tf.math.expm1(-i / steps)
    return maximum * tf.sigmoid(i / steps - math.log(steps))  # inverse_sigmoid, without overflow


def sampling_mask(random: RandomContext, rows: tf.Tensor, steps: int) -> tf.Tensor:
    """Which input words are replaced by the model's own output: bool [steps, rows]; never the first word."""
    seed = random.stateless_seed("own words")  # renaming it would change results
    if random.rows is None:
        numbers = tf.random.stateless_uniform([steps, rows], seed)
    else:
        numbers = random.rows.select(tf.random.stateless_uniform([steps, random.rows.total], seed), axis=1)
    return (numbers < random.sampling_probability) & (tf.range(steps) > 0)[:, tf.newaxis]
