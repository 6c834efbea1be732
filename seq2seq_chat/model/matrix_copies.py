"""Copies of matrices that CPU kernels multiply faster if there are few rows.

Such products take as long as reading the matrix. For a few rows, kernels read a block of columns at a time: part of the
first row of the matrix, then the same part of the next one, thousands of numbers further on. In a copy that stores each
block contiguously, memory is read in order.

If the distance of two rows is a multiple of a large power of two, all rows compete for the same few cache lines. In a
copy with longer rows they do not. Such copies are used with oneDNN's kernels for AVX2; with those for AVX-512 they have
not been measured.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.eager import record

from seq2seq_chat.system.hardware import uses_avx2_kernels

BLOCK = 16 if uses_avx2_kernels() else 48  # columns: two AVX2 registers, or three of AVX-512
MAX_ROWS = 24  # above it, products with the matrix itself, or its padded copy, are faster than those with blocks
MIN_SIZE = 2**20  # elements; smaller matrices stay in the caches of the cores
CONFLICTING = 512  # columns, or a multiple: rows are a multiple of 2 KiB apart
PADDING = 16  # columns: a cache line


class MatrixCopies(NamedTuple):
    """Copies of a matrix, [inputs, outputs]; each may be absent."""

    blocks: tf.Tensor | tuple[()] = ()  # for at most MAX_ROWS rows: [blocks, inputs, BLOCK]
    padded: tf.Tensor | tuple[()] = ()  # for more: [inputs, outputs + PADDING]


_copies: contextvars.ContextVar[Mapping[str, MatrixCopies] | None] = contextvars.ContextVar("copies", default=None)


def copy_matrix(matrix: tf.Tensor) -> MatrixCopies | None:
    """The copies of a matrix, [inputs, outputs], that make products of a few rows faster; None if there are none."""
    if tf.config.list_physical_devices("GPU"):
        return None
    blocks = column_blocks(matrix) if matrix.shape.num_elements() >= MIN_SIZE else ()
    padded = pad_rows(matrix) if needs_padding(matrix) else ()
    return None if isinstance(blocks, tuple) and isinstance(padded, tuple) else MatrixCopies(blocks, padded)


def needs_padding(matrix: tf.Tensor) -> bool:
    """Whether products of a few rows with a matrix, [inputs, outputs], are faster with :func:`pad_rows` of it."""
    return int(matrix.shape[1]) % CONFLICTING == 0 and uses_padding()


def uses_padding() -> bool:
    """Whether there are matrices with which products are faster if their rows are padded."""
    return uses_avx2_kernels() and not tf.config.list_physical_devices("GPU")


def pad_rows(matrix: tf.Tensor) -> tf.Tensor:
    """[inputs, outputs] → [inputs, outputs + PADDING]."""
    return tf.pad(matrix, [[0, 0], [0, PADDING]])


def matmul_padded(x: tf.Tensor, padded: tf.Tensor, outputs: int) -> tf.Tensor:
    """x W, with :func:`pad_rows` of W, or W itself. x: [rows, inputs] → [rows, outputs]."""
    product = tf.matmul(x, padded)
    return product if padded.shape[1] == outputs else product[:, :outputs]


def column_blocks(matrix: tf.Tensor) -> tf.Tensor:
    """[inputs, outputs] → [blocks, inputs, BLOCK]; the last block is padded."""
    inputs, outputs = matrix.shape
    padded = tf.pad(matrix, [[0, 0], [0, -outputs % BLOCK]])
    return tf.transpose(tf.reshape(padded, [inputs, -1, BLOCK]), [1, 0, 2])


@contextlib.contextmanager
def using_copies(copies: Mapping[str, MatrixCopies] | None) -> Iterator[None]:
    """Use the copies of matrices, by the names of their variables, in products of a few rows."""
    token = _copies.set(copies)
    try:
        yield
    finally:
        _copies.reset(token)


def using_padded_copies(matrices: Iterable[tf.Variable]) -> AbstractContextManager[None]:
    """Copy the matrices, [inputs, outputs], that need padding, as part of a graph, and use these in its products."""
    return using_copies({each.name: MatrixCopies(padded=pad_rows(each)) for each in matrices if needs_padding(each)})


def copies_of(variable: tf.Variable) -> MatrixCopies | None:
    """The copies in use for a variable."""
    return (_copies.get() or {}).get(variable.name)


def matmul_copies(
    x: tf.Tensor,
    matrix: tf.Tensor | tf.Variable,
    copies: MatrixCopies,
    bias: tf.Tensor | tf.Variable | None = None,
) -> tf.Tensor:
    """x W + bias, with the fastest copy of W. x: [rows, inputs], W: [inputs, outputs] → [rows, outputs]."""
    rows, outputs = tf.shape(x)[0], matrix.shape[1]

    def with_bias(product: tf.Tensor) -> tf.Tensor:  # inside the branches, so that it becomes part of the product
        return product if bias is None else tf.nn.bias_add(product, bias)

    def of_matrix() -> tf.Tensor:
        if isinstance(copies.padded, tuple):
            return with_bias(tf.matmul(x, matrix))
        return with_bias(matmul_padded(x, copies.padded, outputs))

    def of_blocks() -> tf.Tensor:
        products = tf.transpose(tf.matmul(x[tf.newaxis], copies.blocks), [1, 0, 2])
        return with_bias(tf.reshape(products, [rows, -(-outputs // BLOCK) * BLOCK])[:, :outputs])

    if isinstance(copies.blocks, tuple):
        return of_matrix()
    # a single row is multiplied at full speed in either case
    return tf.cond((rows > 1) & (rows <= MAX_ROWS), of_blocks, of_matrix)


def with_gradient(
    inputs: Sequence[tf.Tensor],
    compute: Callable[[], tf.Tensor],
    gradients: Callable[[tf.Tensor], Sequence[tf.Tensor | None]],
) -> tf.Tensor:
    """Return ``compute()``, a new tensor; ``gradients`` maps its gradient to each input's, which is None for zero.

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
        """An output that depends on x; ``gradient`` maps its gradient to the gradient of x."""
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
