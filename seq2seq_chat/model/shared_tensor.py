"""The decoder's memory, which every step of a loop uses, with one gradient for all steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf
from tensorflow.python.eager import record

InputGradients = Callable[[tf.Tensor], Sequence["tf.Tensor | None"]]
"""The gradient of an output → the gradient of each input; None for zero."""


def with_gradient(
    inputs: Sequence[tf.Tensor], compute: Callable[[], tf.Tensor], gradients: InputGradients
) -> tf.Tensor:
    """Return ``compute()``, a new tensor whose gradient with respect to each input is given by ``gradients``.

    The same as ``tf.custom_gradient``, which adds copies of all inputs and outputs to a graph, and takes several times
    as long to trace.
    """
    with record.stop_recording():
        output = compute()
    record.record_operation("CustomGradient", [output], list(inputs), gradients)
    return output


class SharedUses:
    """Uses of a tensor as a constant, and what the tensor's gradient is computed from."""

    def __init__(self, constant: tf.Tensor) -> None:
        self.constant = constant
        self.outer_products: list[tuple[tf.Tensor, tf.Tensor]] = []  # pairs of factors
        self.sum: tf.Tensor | None = None  # of the gradients of additions

    def weighted_sum(self, weights: tf.Tensor) -> tf.Tensor:
        def gradient(dy: tf.Tensor) -> tf.Tensor:
            self.outer_products.append((weights, dy))
            return row_product(dy, self.constant, transposed=True)

        return self._use(weights, lambda: row_product(weights, self.constant), gradient)

    def broadcast_add(self, query: tf.Tensor) -> tf.Tensor:
        def gradient(dy: tf.Tensor) -> tf.Tensor:
            self.sum = dy if self.sum is None else self.sum + dy
            return tf.reduce_sum(dy, axis=1)

        return self._use(query, lambda: self.constant + tf.expand_dims(query, 1), gradient)

    def batch_dot(self, query: tf.Tensor) -> tf.Tensor:
        def gradient(dy: tf.Tensor) -> tf.Tensor:
            self.outer_products.append((dy, query))
            return row_product(dy, self.constant)

        return self._use(query, lambda: column_product(self.constant, query), gradient)

    def _use(
        self, x: tf.Tensor, output: Callable[[], tf.Tensor], gradient: Callable[[tf.Tensor], tf.Tensor]
    ) -> tf.Tensor:
        """An output that depends on x; ``gradient`` maps its gradient to that of x."""
        return with_gradient([x], output, lambda dy: [gradient(dy)])


class SharedTensor(SharedUses):
    """A tensor, computed once, that every step of a loop uses: the decoder's memory.

    Inside the loop it is a constant. Automatic differentiation would keep a gradient of its full size for every step
    until they are summed; here they are combined in one product, or summed as they arrive. Every use also takes a
    scalar, the anchor, that depends on the tensor: its gradient is requested last, when all steps are done.
    """

    def __init__(self, tensor: tf.Tensor) -> None:
        super().__init__(tf.stop_gradient(tensor))
        self._tensor = tensor  # keeps the tensor alive, so that its id stays unique
        self.anchor = with_gradient([tensor], lambda: tf.zeros([]), lambda _: [self._gradient()])
        self._anchor_gradient: tf.Tensor | None = tf.zeros([])

    def add_gradient(
        self, outer_products: Sequence[tuple[tf.Tensor, tf.Tensor]], gradient: tf.Tensor | None
    ) -> tf.Tensor | None:
        """Add what a step's uses contribute to the gradient; returns the gradient of the anchor for the step."""
        self.outer_products += outer_products
        if gradient is not None:
            self.sum = gradient if self.sum is None else self.sum + gradient
        return self._take_anchor_gradient()

    def _take_anchor_gradient(self) -> tf.Tensor | None:
        """The gradient of the anchor for the first use that requests it, None for the others."""
        gradient, self._anchor_gradient = self._anchor_gradient, None
        return gradient

    def _use(
        self, x: tf.Tensor, output: Callable[[], tf.Tensor], gradient: Callable[[tf.Tensor], tf.Tensor]
    ) -> tf.Tensor:
        return with_gradient([x, self.anchor], output, lambda dy: [gradient(dy), self._take_anchor_gradient()])

    def _gradient(self) -> tf.Tensor:
        """The sum of the gradients of all uses: [batch, n, units]."""
        parts = [] if self.sum is None else [self.sum]
        if self.outer_products:
            weights, gradients = (tf.stack(factors, axis=1) for factors in zip(*self.outer_products, strict=True))
            parts.append(tf.matmul(weights, gradients, transpose_a=True))
        return tf.add_n(parts)


def row_product(rows: tf.Tensor, matrices: tf.Tensor, transposed: bool = False) -> tf.Tensor:
    """One product a sample. rows: [batch, n], matrices: [batch, n, m], or [batch, m, n] → [batch, m]."""
    return tf.squeeze(tf.matmul(tf.expand_dims(rows, 1), matrices, transpose_b=transposed), 1)


def column_product(matrices: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """One product a sample. matrices: [batch, m, n], columns: [batch, n] → [batch, m]."""
    return tf.squeeze(tf.matmul(matrices, tf.expand_dims(columns, 2)), 2)
