"""The peak speed of the machine: a large square matrix product."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from contenders.workload import PEAK_MATRIX_SIZE


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
