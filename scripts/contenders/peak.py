"""What the machine can do at most: a large square matrix product, again and again."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from contenders.workload import SQUARE


class TrainingStep:
    """One product of two square matrices in place of a training step."""

    def __init__(self, workload: Any, precision: str) -> None:
        first, second = (tf.cast(tf.random.normal([SQUARE, SQUARE], seed=n), precision) for n in range(2))
        self._product = tf.function(lambda: tf.matmul(first, second)[0, 0])

    def step(self, number: int) -> float:
        """Multiply; there is no loss."""
        return float(self._product()) * 0.0
