"""Deferred gradients: one large product for each weight of an unrolled loop.

An unrolled network uses each weight at every step. Plain automatic differentiation computes a weight's gradient as the
sum of one small product for each step. Here the weights are constants inside the loop: only the gradients of their
products are propagated step by step, and a weight's gradient is one large product over all steps at the end::

    dL/dW = concat(x_1, …, x_T)ᵀ · concat(dL/d(x_1 W), …, dL/d(x_T W))

The same holds for the decoder's memory. The model does not depend on it: it calls ``self.recurrent(x)``, and the
training step opens :class:`DeferredGradients` around the forward pass in place of a ``tf.GradientTape``.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import tensorflow as tf

from seq2seq_chat.model.matrix_copies import (
    SharedTensor,
    SharedUses,
    column_product,
    matmul_padded,
    needs_padding,
    pad_rows,
    row_product,
    with_gradient,
)

Gradient: TypeAlias = "tf.Tensor | tf.IndexedSlices"

_recorder: contextvars.ContextVar[DeferredGradients | None] = contextvars.ContextVar("recorder", default=None)


def recorder() -> DeferredGradients | None:
    """What records the current computation; None if gradients are not deferred."""
    return _recorder.get()


def matmul(x: tf.Tensor, matrix: tf.Variable) -> tf.Tensor:
    """x W. x: [..., inputs], W: [inputs, outputs], used at every step → [..., outputs]."""
    if recorder := _recorder.get():
        return recorder.matmul(x, matrix)
    return _flat_matmul(x, matrix)


def matmul_transposed(x: tf.Tensor, rows: tf.Tensor | tf.Variable) -> tf.Tensor:
    """x Rᵀ. x: [n, inputs], rows: R [outputs, inputs], used once → [n, outputs]."""
    if recorder := _recorder.get():  # in its type; R is used only once, so its gradient is not deferred
        rows = tf.cast(tf.convert_to_tensor(rows), recorder.compute)
        return tf.cast(tf.matmul(tf.cast(x, recorder.compute), rows, transpose_b=True), x.dtype)
    return tf.matmul(x, rows, transpose_b=True)


def weighted_sum(weights: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Σ weights_i values_i. weights: [batch, n], values: [batch, n, units], used at every step → [batch, units]."""
    if recorder := _recorder.get():
        return recorder.shared(values).weighted_sum(weights)
    return row_product(weights, values)


def broadcast_add(keys: tf.Tensor, query: tf.Tensor) -> tf.Tensor:
    """keys_i + query. keys: [batch, n, units], used at every step, query: [batch, units] → [batch, n, units]."""
    if recorder := _recorder.get():
        return recorder.shared(keys).broadcast_add(query)
    return keys + tf.expand_dims(query, 1)


def batch_dot(keys: tf.Tensor, query: tf.Tensor) -> tf.Tensor:
    """keys_iᵀ query. keys: [batch, n, units], used at every step, query: [batch, units] → [batch, n]."""
    if recorder := _recorder.get():
        return recorder.shared(keys).batch_dot(query)
    return column_product(keys, query)


def select(mask: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """x where the mask is true, y elsewhere. mask: bool, broadcast to the shape of x and y."""

    def gradients(dz: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        zero = tf.zeros([], dz.dtype)
        return tf.where(mask, dz, zero), tf.where(mask, zero, dz)

    return with_gradient([x, y], lambda: tf.where(mask, x, y), gradients)


def concat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Tensors of shape [batch, units] side by side: [batch, sum of units]."""
    sizes = [tensor.shape[1] for tensor in tensors]
    return with_gradient(tensors, lambda: tf.concat(tensors, axis=1), lambda dy: tf.split(dy, sizes, axis=1))


@dataclass
class Product:
    """A product y = x W of a matrix W that is used at every step."""

    x: tf.Tensor
    y: tf.Tensor | None  # None if dy does not come from the tape
    dy: tf.Tensor | None = None  # the gradient of y, once it is known


class DeferredGradients:
    """A gradient tape that computes the gradient of each matrix used by :func:`matmul` in one product.

    Call :meth:`gradient` once after the forward pass::

        with DeferredGradients() as tape:
            loss = …
        gradients = tape.gradient(loss, model.trainable_variables)

    Args:
        compute: type of matrix products. Operands are rounded to it; weights, gradients and everything between
            products stay in float32 (Micikevicius et al. 2018, "Mixed precision training").
    """

    def __init__(self, compute: tf.DType = tf.float32) -> None:
        self.compute = compute
        self._tape = tf.GradientTape()
        self._products: dict[Any, list[Product]] = {}  # by matrix, in order of use
        self._constants: dict[Any, ConstantMatrix] = {}
        self._shared: dict[int, SharedTensor] = {}

    def __enter__(self) -> DeferredGradients:
        self._token = _recorder.set(self)
        self._tape.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._tape.__exit__(*error)
        _recorder.reset(self._token)

    def watch(self, tensors: Sequence[tf.Tensor]) -> None:
        """Record what is computed from these tensors."""
        self._tape.watch(tensors)

    def matmul(self, x: tf.Tensor, matrix: tf.Variable) -> tf.Tensor:
        """x W with W constant; records input and output."""
        y = self.constant(matrix).matmul(x)
        self._tape.watch(y)
        self.add_product(matrix, Product(x, y))
        return y

    def constant(self, matrix: tf.Variable) -> ConstantMatrix:
        """A matrix as a constant of this step."""
        key = matrix.ref()
        if key not in self._constants:
            with self._tape.stop_recording():
                self._constants[key] = ConstantMatrix(matrix, self.compute)
        return self._constants[key]

    def add_product(self, matrix: tf.Variable, product: Product) -> None:
        """Record a product with a matrix."""
        self._products.setdefault(matrix.ref(), []).append(product)

    def shared(self, tensor: tf.Tensor) -> SharedUses:
        """The :class:`SharedTensor` of a tensor that is used at every step of a loop."""
        if id(tensor) not in self._shared:
            self._shared[id(tensor)] = SharedTensor(tensor)
        return self._shared[id(tensor)]

    def gradient(self, loss: tf.Tensor, variables: Sequence[tf.Variable]) -> list[Gradient]:
        """The gradient of a scalar loss with respect to each variable; None where the loss does not depend on it."""
        direct = [v for v in variables if v.ref() not in self._products]
        gradients: dict[Any, Gradient] = {v.ref(): g for v, g in zip(direct, self.backward(loss, direct), strict=True)}
        return [
            gradients[key] if key in gradients else _weight_gradient(self._products[key], self.compute)
            for key in (v.ref() for v in variables)
        ]

    def backward(self, outputs: Any, inputs: Sequence[Any], output_gradients: Any = None) -> list[Gradient | None]:
        """The gradients of inputs, as of a plain tape; the output gradients of all products are set as well."""
        products = [product for products in self._products.values() for product in products if product.y is not None]
        targets = [*inputs, *(product.y for product in products)]
        gradients = self._tape.gradient(outputs, targets, output_gradients)
        for product, dy in zip(products, gradients[len(inputs) :], strict=True):
            product.dy = dy
        return list(gradients[: len(inputs)])

    def output_gradients(self, matrix: tf.Variable) -> list[tf.Tensor | None]:
        """After :meth:`gradient`: the gradient of the loss with respect to each product with a matrix, in order of use.

        For a recurrent weight these are the gradients of the gates, step by step: they show where a gradient vanishes.
        """
        return [product.dy for product in self._products[matrix.ref()]]


@contextlib.contextmanager
def without_gradient() -> Iterator[None]:
    """Treat everything computed inside as a constant."""
    recorder = _recorder.get()
    if recorder is None:
        yield
        return
    token = _recorder.set(None)
    try:
        with recorder._tape.stop_recording():
            yield
    finally:
        _recorder.reset(token)


class ConstantMatrix:
    """A matrix W that is constant during a step: products x W, whose gradients for x are dy Wᵀ.

    CPU kernels multiply a few float32 rows three to six times as fast with a matrix that is not transposed, and rows of
    narrower types, which are multiplied in pairs along the inner dimension, faster with a transposed one. So a loop
    needs W and a transposed copy in either case; the types only swap their roles. In float32, both have longer rows
    where :func:`needs_padding` says so. Products outside the loop, of [steps, batch, …] at once, are large enough for
    any layout.
    """

    def __init__(self, matrix: tf.Variable, compute: tf.DType) -> None:
        self._matrix = tf.cast(tf.convert_to_tensor(matrix), compute)
        self._narrow = compute != tf.float32

    def matmul(self, x: tf.Tensor) -> tf.Tensor:
        """x: [..., inputs] → x W: [..., outputs]."""
        one_step = x.shape.rank == 2
        inputs, outputs = self._matrix.shape

        def multiply(x: tf.Tensor) -> tf.Tensor:
            if one_step and self._narrow:
                return _flat_matmul(x, self._transposed, transposed=True)
            return matmul_padded(x, self._padded, outputs) if one_step else _flat_matmul(x, self._matrix)

        def gradient(dy: tf.Tensor) -> list[tf.Tensor]:
            if one_step and not self._narrow:
                return [matmul_padded(dy, self._padded_transposed, inputs)]
            return [_flat_matmul(dy, self._matrix, transposed=True)]

        return with_gradient([x], lambda: multiply(x), gradient)

    @functools.cached_property
    def _transposed(self) -> tf.Tensor:
        """A copy of Wᵀ. The shape assertion keeps the graph optimizer from folding the transpose into the product."""
        with self._graph():
            return tf.ensure_shape(tf.transpose(self._matrix), self._matrix.shape[::-1])

    @functools.cached_property
    def _padded(self) -> tf.Tensor:
        return self._pad(self._matrix)

    @functools.cached_property
    def _padded_transposed(self) -> tf.Tensor:
        return self._pad(self._transposed)

    def _pad(self, matrix: tf.Tensor) -> tf.Tensor:
        """The matrix, or a copy with longer rows if a few rows are multiplied faster with it."""
        if not needs_padding(matrix):
            return matrix
        with self._graph():
            return pad_rows(matrix)

    def _graph(self) -> contextlib.AbstractContextManager[Any]:
        """The graph of the matrix, outside the loop."""
        return contextlib.nullcontext() if tf.executing_eagerly() else self._matrix.graph.as_default()


def _flat(x: tf.Tensor) -> tf.Tensor:
    """[..., units] → [rows, units]."""
    return x if x.shape.rank == 2 else tf.reshape(x, [-1, x.shape[-1]])


def _flat_matmul(x: tf.Tensor, matrix: tf.Tensor, transposed: bool = False) -> tf.Tensor:
    """x: [..., inputs], matrix: [inputs, outputs], or [outputs, inputs] → [..., outputs], as one matrix product."""
    outputs = matrix.shape[0 if transposed else 1]
    y = tf.cast(tf.matmul(tf.cast(_flat(x), matrix.dtype), matrix, transpose_b=transposed), x.dtype)
    if x.shape.rank == 2:
        return y
    sizes = [tf.shape(x)[axis] if size is None else size for axis, size in enumerate(x.shape[:-1])]
    return tf.reshape(y, [*sizes, outputs])


def _weight_gradient(products: Sequence[Product], compute: tf.DType) -> tf.Tensor | None:
    """Σ_t x_tᵀ dy_t as one product over all uses of a matrix: [inputs, outputs]."""
    used = [product for product in products if product.dy is not None]
    if not used:
        return None
    x = tf.concat([tf.cast(_flat(product.x), compute) for product in used], axis=0)
    dy = tf.concat([tf.cast(_flat(product.dy), compute) for product in used], axis=0)
    return tf.cast(tf.matmul(x, dy, transpose_a=True), tf.float32)
