"""Clipping of dense and sparse gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from seq2seq_chat.model.deferred import Gradient


def sum_repeated_rows(gradient: Gradient) -> Gradient:
    """Sum the slices of a sparse gradient that belong to the same row.

    A word that occurs several times in a batch has several slices in the gradient of its table. Norms and AdaGrad need
    their sum.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, position = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, position, tf.shape(rows)[0])
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def sum_gradients(gradients: Sequence[Gradient | None]) -> Gradient | None:
    """The sum of gradients of the same variable, all dense or all sparse; None if it has none."""
    if len(gradients) == 1 or gradients[0] is None:
        return gradients[0]
    sparse = [gradient for gradient in gradients if isinstance(gradient, tf.IndexedSlices)]
    if not sparse:
        return tf.add_n(gradients)
    values = tf.concat([gradient.values for gradient in sparse], axis=0)
    rows = tf.concat([gradient.indices for gradient in sparse], axis=0)
    return tf.IndexedSlices(values, rows, sparse[0].dense_shape)


def global_norm(gradients: Sequence[Gradient]) -> tf.Tensor:
    """sqrt(Σ ‖g‖²) over all variables. Sparse gradients must have no repeated rows."""
    half_squares = [tf.nn.l2_loss(g.values if isinstance(g, tf.IndexedSlices) else g) for g in gradients]  # one pass
    return tf.sqrt(2.0 * tf.add_n(half_squares))


def clip_by_global_norm(gradients: Sequence[Gradient], limit: float | None) -> tuple[list[Gradient], tf.Tensor]:
    """Rescale all gradients together if their global norm exceeds ``limit`` (Pascanu et al. 2013).

    Returns:
        The gradients, without repeated rows, and their global norm before clipping.
    """
    gradients, norm = _with_norm(gradients)
    if limit is None:
        return gradients, norm
    scale = tf.minimum(1.0, limit / norm)

    def rescaled() -> list[Gradient]:
        return [_map_values(lambda values: values * scale, gradient) for gradient in gradients]

    # most gradients are below the limit; multiplying them by one would be a wasted pass over memory
    return tf.cond(norm <= limit, lambda: gradients, rescaled), norm


def clip_by_value(gradients: Sequence[Gradient], limit: float | None) -> tuple[list[Gradient], tf.Tensor]:
    """Clip each entry to ±``limit``, which may change the direction (Mikolov 2012, section 3.2.2).

    Returns:
        The gradients, without repeated rows, and their global norm before clipping.
    """
    gradients, norm = _with_norm(gradients)
    if limit is None:
        return gradients, norm
    clipped = [_map_values(lambda values: tf.clip_by_value(values, -limit, limit), gradient) for gradient in gradients]
    return clipped, norm


def _map_values(function: Callable[[tf.Tensor], tf.Tensor], gradient: Gradient) -> Gradient:
    """Apply a function to a gradient, or to the values of a sparse one."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)


def _with_norm(gradients: Sequence[Gradient]) -> tuple[list[Gradient], tf.Tensor]:
    """Sum repeated rows and compute the global norm."""
    gradients = [sum_repeated_rows(gradient) for gradient in gradients]
    return gradients, global_norm(gradients)


CLIPPINGS = {"norm": clip_by_global_norm, "value": clip_by_value}
