"""The peak speeds of the machine: of a large square matrix product, and of reading memory."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from contenders.workload import PEAK_BYTES, PEAK_MATRIX_SIZE


class TrainingStep:
    """A product of two square matrices in place of a training step."""

    def __init__(self, workload: Any, precision: str) -> None:
        first, second = (
            tf.cast(tf.random.normal([PEAK_MATRIX_SIZE, PEAK_MATRIX_SIZE], seed=n), precision) for n in range(2)
        )
        self._product = tf.function(lambda: tf.matmul(first, second)[0, 0])

    def step(self, number: int) -> float:
        """Multiply once; returns 0 as the loss."""
        return float(self._product()) * 0.0


class Search:
    """What limits a search: reading weights, and multiplying them."""

    def __init__(self, workload: Any) -> None:
        self._product = TrainingStep(workload, "float32")
        numbers = tf.ones([PEAK_BYTES // 4])
        self._sum = tf.function(lambda: tf.reduce_sum(numbers))

    def multiply(self) -> float:
        """The product of two large matrices."""
        return self._product.step(0)

    def read(self) -> float:
        """Read every number of a large array once."""
        return float(self._sum())
