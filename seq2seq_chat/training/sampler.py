"""Which samples each training step sees, as a function of (seed, step)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf


class BatchSampler:
    """Shuffles the samples so that every epoch sees each of them once, in a different order.

    All samples of a batch come from one bucket. Batches of all buckets are shuffled together; the last batch of a
    bucket may be smaller. Both shuffles are stateless shuffles of indices, so a position in the data is just a step
    number, and needs no memory however large the corpus is.

    Args:
        sizes: number of samples in each bucket.
        batch_size: maximum number of samples in a batch.
        seed: the experiment's seed.
        start_step: the step at which this order starts; a different one gives a different order.

    Raises:
        ValueError: all buckets are empty.
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, seed: int, start_step: int = 0) -> None:
        self.start_step = start_step
        self._sizes, self._batch_size, self._seed = sizes, batch_size, seed
        self._ends = np.cumsum([-(-size // batch_size) for size in sizes])
        self.steps_per_epoch = int(self._ends[-1])
        if not self.steps_per_epoch:
            raise ValueError("there are no samples to shuffle")

    def batch(self, step: int) -> tuple[int, np.ndarray]:
        """The bucket of a step, counted from 0, and the positions of its samples there: int64 [≤ batch size]."""
        epoch, position = divmod(step - self.start_step, self.steps_per_epoch)
        shuffle = 2 * epoch + (self.start_step << 32)
        number = int(_shuffle(np.array([position]), self.steps_per_epoch, (self._seed, shuffle))[0])
        bucket = int(np.searchsorted(self._ends, number, side="right"))
        first = (number - (int(self._ends[bucket - 1]) if bucket else 0)) * self._batch_size
        positions = np.arange(first, min(first + self._batch_size, self._sizes[bucket]))
        return bucket, _shuffle(positions, self._sizes[bucket], (self._seed, shuffle + 1))


def _shuffle(positions: np.ndarray, size: int, seed: tuple[int, int]) -> np.ndarray:
    """Where a seed's shuffle of ``range(size)`` moves each position."""
    index = tf.constant(positions, tf.int64)
    shuffled = tf.random.experimental.index_shuffle(index, tf.constant(seed, tf.int64), tf.constant(size - 1, tf.int64))
    result: np.ndarray = shuffled.numpy()
    return result
