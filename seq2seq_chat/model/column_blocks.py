"""Products of a few rows with a large matrix, of which a beam search for a single utterance consists.

They take as long as reading the matrix from memory. For a few rows, CPU kernels read a block of columns at a time: part
of the first row of the matrix, then the same part of the next one, thousands of numbers further on. In a copy that
stores each block contiguously, memory is read in order. For more rows the products themselves take longer.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping

import tensorflow as tf

BLOCK = 48  # columns: three AVX-512 registers
MAX_ROWS = 24  # above it, products with the matrix itself are faster
MIN_SIZE = 2**20  # elements; smaller matrices stay in the caches of the cores

_blocks: contextvars.ContextVar[Mapping[str, tf.Tensor] | None] = contextvars.ContextVar("blocks", default=None)


def column_blocks(matrix: tf.Tensor) -> tf.Tensor | None:
    """A copy of a large matrix, [inputs, outputs], by blocks of columns; the last one is padded.

    Returns:
        [blocks, inputs, BLOCK]; None if products with it would not be faster.
    """
    inputs, outputs = matrix.shape
    if inputs * outputs < MIN_SIZE or tf.config.list_physical_devices("GPU"):
        return None
    padded = tf.pad(matrix, [[0, 0], [0, -outputs % BLOCK]])
    return tf.transpose(tf.reshape(padded, [inputs, -1, BLOCK]), [1, 0, 2])


@contextlib.contextmanager
def using_blocks(blocks: Mapping[str, tf.Tensor] | None) -> Iterator[None]:
    """Use :func:`column_blocks` of matrices, by the names of their variables, for products of a few rows."""
    token = _blocks.set(blocks)
    try:
        yield
    finally:
        _blocks.reset(token)


def blocks_of(variable: tf.Variable) -> tf.Tensor | None:
    """The :func:`column_blocks` in use for a variable."""
    return (_blocks.get() or {}).get(variable.name)


def matmul_few_rows(
    x: tf.Tensor, matrix: tf.Tensor | tf.Variable, blocks: tf.Tensor, bias: tf.Tensor | tf.Variable | None = None
) -> tf.Tensor:
    """x W + bias, with the faster copy of W. x: [rows, inputs], W: [inputs, outputs] → [rows, outputs].

    A single row is multiplied at full speed in either case.
    """
    rows, outputs = tf.shape(x)[0], matrix.shape[1]

    def with_bias(product: tf.Tensor) -> tf.Tensor:  # inside the branches, so that it becomes part of the product
        return product if bias is None else tf.nn.bias_add(product, bias)

    def of_blocks() -> tf.Tensor:
        products = tf.transpose(tf.matmul(x[tf.newaxis], blocks), [1, 0, 2])
        return with_bias(tf.reshape(products, [rows, blocks.shape[0] * BLOCK])[:, :outputs])

    return tf.cond((rows > 1) & (rows <= MAX_ROWS), of_blocks, lambda: with_bias(tf.matmul(x, matrix)))
