"""Clipping by the global norm."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.training.optimizers import clip_by_global_norm


def sparse(rows: list[int], values: list[list[float]]) -> tf.IndexedSlices:
    return tf.IndexedSlices(tf.constant(values), tf.constant(rows), tf.constant([5, len(values[0])]))


def test_the_norm_of_repeated_rows_is_that_of_their_sum() -> None:
    """Row 0 adds up to 3 - 3 = 0, row 1 to 1 + 2 = 3, and the dense gradient is 4: the norm is 5."""
    gradients = [sparse([0, 1, 0, 1], [[3.0], [1.0], [-3.0], [2.0]]), tf.constant([4.0])]
    unclipped, norm = clip_by_global_norm(gradients, None)
    assert float(norm) == pytest.approx(5.0)
    np.testing.assert_allclose(unclipped[1], [4.0])
    clipped, norm = clip_by_global_norm(gradients, 1.0)
    assert float(norm) == pytest.approx(5.0)
    np.testing.assert_allclose(clipped[1], [0.8])
    np.testing.assert_allclose(tf.convert_to_tensor(clipped[0])[:2], [[0.0], [0.6]], atol=1e-7)


def test_gradients_below_the_limit_do_not_change() -> None:
    gradients, norm = clip_by_global_norm([tf.constant([0.3, 0.4])], 10.0)
    assert float(norm) == pytest.approx(0.5)
    np.testing.assert_allclose(gradients[0], [0.3, 0.4])


def test_a_gradient_of_zero_stays_zero() -> None:
    gradients, norm = clip_by_global_norm([tf.zeros([3])], 10.0)
    assert float(norm) == 0.0
    assert not np.any(gradients[0])
