"""Which samples a training step sees, as a function of (seed, step)."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


class SampleOrder:
    """Every epoch sees every sample once, in an order of its own; the last batch of an epoch may be smaller.

    The order is a stateless shuffle of indices, so a position in the data is nothing but a step number, and needs no
    memory however large the corpus is.
    """

    def __init__(self, samples: int, batch_size: int, seed: int) -> None:
        if samples < 1:
            raise ValueError("there are no samples to order")
        self._samples, self._batch_size, self._seed = samples, batch_size, seed
        self.steps_per_epoch = -(-samples // batch_size)

    def indices(self, step: int) -> np.ndarray:
        """The samples of a step, counted from 0: int64 [at most batch size]."""
        epoch, batch = divmod(step, self.steps_per_epoch)
        first = batch * self._batch_size
        positions = tf.range(first, min(first + self._batch_size, self._samples), dtype=tf.int64)
        seed = tf.constant([self._seed, epoch], tf.int64)
        shuffled = tf.random.experimental.index_shuffle(positions, seed, tf.constant(self._samples - 1, tf.int64))
        return shuffled.numpy()
