"""The variables of a model, and their values in files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from seq2seq_chat.checkpoint.arrays import ensure_shapes, read_arrays, write_arrays


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
