"""Clipping of gradients, dense and sparse ones alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import tensorflow as tf

from seq2seq_chat.model.deferred import Gradient


def sum_repeated_rows(gradient: Gradient) -> Gradient:
    """A sparse gradient with one slice for each row.

    A word that occurs several times in a batch has several slices in its table's gradient. They belong together: the
    norm of the gradient is that of their sum, and AdaGrad squares their sum.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, position = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, position, tf.shape(rows)[0])
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def global_norm(gradients: Sequence[Gradient]) -> tf.Tensor:
    """sqrt(Σ ‖g‖²) over all variables. Sparse gradients must have no repeated rows."""
    half_squares = [tf.nn.l2_loss(g.values if isinstance(g, tf.IndexedSlices) else g) for g in gradients]  # one pass
    return tf.sqrt(2.0 * tf.add_n(half_squares))


def clip_by_global_norm(gradients: Sequence[Gradient], largest: Optional[float]) -> tuple[list[Gradient], tf.Tensor]:
    """Rescale all gradients together where their global norm is above ``largest`` (Pascanu et al. 2013).

    Returns:
        the gradients, without repeated rows, and their global norm before clipping.
    """
    gradients, norm = _with_norm(gradients)
    if largest is None:
        return gradients, norm
    scale = tf.minimum(1.0, largest / norm)

    def rescaled(gradient: Gradient) -> Gradient:
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(gradient.values * scale, gradient.indices, gradient.dense_shape)
        return gradient * scale

    # most gradients are short enough, and to multiply all of them by one would read and write them for nothing
    return tf.cond(norm <= largest, lambda: gradients, lambda: [rescaled(gradient) for gradient in gradients]), norm


def clip_by_value(gradients: Sequence[Gradient], largest: Optional[float]) -> tuple[list[Gradient], tf.Tensor]:
    """Cut each number to ``largest`` in either direction, which may turn the gradient (Mikolov 2012, section 3.2.2).

    Returns:
        the gradients, without repeated rows, and their global norm before clipping.
    """
    gradients, norm = _with_norm(gradients)
    if largest is None:
        return gradients, norm

    def cut(gradient: Gradient) -> Gradient:
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(cut(gradient.values), gradient.indices, gradient.dense_shape)
        return tf.clip_by_value(gradient, -largest, largest)

    return [cut(gradient) for gradient in gradients], norm


def _with_norm(gradients: Sequence[Gradient]) -> tuple[list[Gradient], tf.Tensor]:
    """The gradients without repeated rows, and their global norm."""
    gradients = [sum_repeated_rows(gradient) for gradient in gradients]
    return gradients, global_norm(gradients)


CLIPPINGS = {"norm": clip_by_global_norm, "value": clip_by_value}
