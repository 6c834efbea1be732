"""The variables of a model, and their values in files."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from seq2seq_chat.checkpoint.arrays import ensure_shapes, read_arrays, write_arrays
from seq2seq_chat.model.deferred import matmul
from seq2seq_chat.model.matrix_copies import copies_of, matmul_copies


def variable_name(variable: tf.Variable) -> str:
    """The name of a variable without the suffix ``:0``, for example ``encoder/layer0/bias``."""
    return str(variable.name).split(":")[0]


def by_name(variables: Iterable[tf.Variable]) -> dict[str, tf.Variable]:
    """Variables by their names."""
    return {variable_name(variable): variable for variable in variables}


def as_array(variable: tf.Variable) -> np.ndarray:
    """The value of a variable without a copy: a view that is invalid after the next assignment."""
    return np.asarray(memoryview(variable.read_value()))


class VariableView:
    """A variable that ``numpy.asarray`` makes an array of, by :func:`as_array`."""

    def __init__(self, variable: tf.Variable) -> None:
        self._variable = variable

    def __array__(self, dtype: Any = None) -> np.ndarray:
        return np.asarray(as_array(self._variable), dtype)


def save_variables(path: Path, variables: Iterable[tf.Variable], metadata: Mapping[str, Any]) -> None:
    """Write variables and metadata atomically. Raises UserError if the file could not be written."""
    write_arrays(path, {name: VariableView(variable) for name, variable in by_name(variables).items()}, metadata)


def load_variables(
    path: Path, variables: Iterable[tf.Variable], optional: Iterable[tf.Variable] = ()
) -> dict[str, Any]:
    """Assign the values in a checkpoint to all variables, or to none if an error is raised, and return its metadata.

    ``optional`` variables keep their values if they are not in the checkpoint.

    Raises:
        DamagedCheckpoint: The file is damaged.
        MismatchError: A variable is missing or has another shape.
    """
    required, accepted = by_name(variables), by_name(optional)
    arrays, metadata = read_arrays(path, required, accepted)
    named = {**required, **accepted}
    ensure_shapes(path, arrays, {name: tuple(variable.shape) for name, variable in named.items()})
    for name, array in arrays.items():
        named[name].assign(array)
    return metadata


def glorot(shape: Sequence[int], seed: int, name: str, fan_in: int = 0, gates: int = 1) -> tf.Tensor:
    """Uniform numbers of variance 2 / (fan_in + fan_out), a function of the seed and the variable's name.

    ``fan_in`` is the number of rows, unless the matrix is part of one with more rows. ``fan_out`` is the number of
    columns, or of the columns of one gate if the matrix consists of the matrices of several.

    Source: Glorot & Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.
    """
    return uniform(shape, math.sqrt(6.0 / ((fan_in or shape[0]) + shape[-1] // gates)), seed, name)


def uniform(shape: Sequence[int], limit: float, seed: int, name: str) -> tf.Tensor:
    """Uniform numbers in [-limit, limit), a function of the seed and the variable's name."""
    return tf.random.stateless_uniform(shape, seed=_seeds(seed, name), minval=-limit, maxval=limit)


def orthogonal(size: int, seed: int, name: str) -> tf.Tensor:
    """A random orthogonal matrix [size, size], evenly distributed, a function of the seed and the variable's name.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups", 2007, section 5.
    """
    q, r = tf.linalg.qr(tf.random.stateless_normal([size, size], seed=_seeds(seed, name)))
    return q * tf.sign(tf.linalg.diag_part(r))


def _seeds(seed: int, name: str) -> list[int]:
    return [seed, int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") & 0x7FFFFFFF]


class Weight(tf.Module):
    """A matrix W ∈ R^(inputs × outputs), used as x W.

    Args:
        fan_in, gates: see :func:`glorot`.
        initial: initial values in place of ``glorot``, [inputs, outputs].
    """

    def __init__(
        self,
        name: str,
        inputs: int,
        outputs: int,
        seed: int,
        fan_in: int = 0,
        gates: int = 1,
        initial: tf.Tensor | None = None,
    ) -> None:
        super().__init__()
        values = glorot([inputs, outputs], seed, name, fan_in, gates) if initial is None else initial
        self.matrix = tf.Variable(values, name=name)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """x: [..., inputs] → x W: [..., outputs]."""
        copies = copies_of(self.matrix) if x.shape.rank == 2 else None
        return matmul(x, self.matrix) if copies is None else matmul_copies(x, self.matrix, copies)
