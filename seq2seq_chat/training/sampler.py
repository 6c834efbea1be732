"""Which samples a training step sees, as a function of (seed, step)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf


class SampleOrder:
    """Every epoch sees every sample once, in an order of its own.

    A batch takes its samples from one bucket; the batches of all buckets come in mixed order, and the last batch of a
    bucket may be smaller. Both orders are stateless shuffles of indices, so a position in the data is nothing but a
    step number, and needs no memory however large the corpus is.

    Args:
        sizes: samples of each bucket.
        batch_size: samples in a batch, at most.
        begun: the step at which this order began; another one is another order.
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, seed: int, begun: int = 0) -> None:
        self.begun = begun
        self._sizes, self._batch_size, self._seed = sizes, batch_size, seed
        self._ends = np.cumsum([-(-size // batch_size) for size in sizes])
        self.steps_per_epoch = int(self._ends[-1])
        if not self.steps_per_epoch:
            raise ValueError("there are no samples to order")

    def batch(self, step: int) -> tuple[int, np.ndarray]:
        """Step, counted from 0 → the bucket, and places in it: int64 [at most batch size]."""
        epoch, position = divmod(step - self.begun, self.steps_per_epoch)
        shuffle = 2 * epoch + (self.begun << 32)
        number = int(_shuffled(np.array([position]), self.steps_per_epoch, (self._seed, shuffle))[0])
        bucket = int(np.searchsorted(self._ends, number, side="right"))
        first = (number - (int(self._ends[bucket - 1]) if bucket else 0)) * self._batch_size
        places = np.arange(first, min(first + self._batch_size, self._sizes[bucket]))
        return bucket, _shuffled(places, self._sizes[bucket], (self._seed, shuffle + 1))


def _shuffled(places: np.ndarray, size: int, seed: tuple[int, int]) -> np.ndarray:
    """Where each of the places 0 … size-1 is moved to by the shuffle of a seed."""
    index = tf.constant(places, tf.int64)
    shuffled = tf.random.experimental.index_shuffle(index, tf.constant(seed, tf.int64), tf.constant(size - 1, tf.int64))
    result: np.ndarray = shuffled.numpy()
    return result
