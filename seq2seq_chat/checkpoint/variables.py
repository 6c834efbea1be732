"""Save variables to a file and load them; damaged files are detected.

A checkpoint or snapshot is an uncompressed ``.npz`` file that NumPy can load: an array for each variable, under its
name, and ``metadata.json``. The zip format keeps a checksum of each member.
"""

from __future__ import annotations

import json
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import Draft, as_user_error

METADATA = "metadata.json"
DAMAGE_ERRORS = (  # what zipfile and NumPy raise for truncated files and flipped bits
    *(zipfile.BadZipFile, zlib.error, ValueError, TypeError, LookupError, EOFError, OSError, NotImplementedError),
    *(RuntimeError, MemoryError, OverflowError, SyntaxError, struct.error, tokenize.TokenError),
)


class DamagedCheckpoint(Exception):
    """A checkpoint that is truncated or corrupted, or a file that is not a checkpoint."""


class MismatchError(UserError):
    """An intact checkpoint of another model."""


def save_variables(path: Path, variables: Iterable[tf.Variable], metadata: Mapping[str, Any]) -> None:
    """Write variables and metadata atomically."""
    write_arrays(path, {variable_name(variable): variable for variable in variables}, metadata)


def write_arrays(path: Path, arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    """Write named arrays or variables, and metadata, atomically.

    Raises:
        UserError: The file could not be written.
    """
    draft_arrays(path, arrays, metadata).publish()


def draft_arrays(path: Path, arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> Draft:
    """Like :func:`write_arrays`, but leave ``Draft.publish`` to the caller; the arrays may change before that.

    Raises:
        UserError: The file could not be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = Draft(path, "wb")
    try:
        with as_user_error(path), zipfile.ZipFile(draft.stream, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, as_array(array), allow_pickle=False)
            archive.writestr(METADATA, json.dumps(dict(metadata)))
    except BaseException:
        draft.discard()
        raise
    return draft


def read_arrays(
    path: Path, names: Iterable[str], optional: Iterable[str] = ()
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read arrays and the metadata of a checkpoint; ``optional`` arrays only if the file has them.

    Raises:
        DamagedCheckpoint: The file is damaged.
        MismatchError: The file is intact but lacks one of ``names``.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = set(archive.namelist())
            missing = [name for name in names if f"{name}.npy" not in members]
            if missing:
                if archive.testzip() is not None:  # the name itself may be damaged
                    raise zipfile.BadZipFile(f"{missing[0]} is missing")
                raise MismatchError(f"{path} has no variable {missing[0]}; it belongs to another model or optimizer")
            present = [*names, *(name for name in optional if f"{name}.npy" in members)]
            arrays = {name: _read_array(archive, name) for name in present}
            return arrays, json.loads(archive.read(METADATA))
    except DAMAGE_ERRORS as error:
        raise DamagedCheckpoint(f"{path}: {error}") from error


def load_variables(
    path: Path, variables: Iterable[tf.Variable], optional: Iterable[tf.Variable] = ()
) -> dict[str, Any]:
    """Assign the values in a checkpoint to all variables, or to none if an error is raised, and return its metadata.

    ``optional`` variables keep their values if they are not in the checkpoint.

    Raises:
        DamagedCheckpoint: The file is damaged.
        MismatchError: A variable is missing or has another shape.
    """
    required = {variable_name(variable): variable for variable in variables}
    accepted = {variable_name(variable): variable for variable in optional}
    arrays, metadata = read_arrays(path, required, accepted)
    present = {name: variable for name, variable in {**required, **accepted}.items() if name in arrays}
    ensure_shapes(path, arrays, present.values())
    for name, variable in present.items():
        variable.assign(arrays[name])
    return metadata


def ensure_shapes(path: Path, arrays: Mapping[str, np.ndarray], variables: Iterable[tf.Variable]) -> None:
    """Raise MismatchError if an array of a checkpoint has another shape than its variable."""
    for variable in variables:
        array = arrays[variable_name(variable)]
        if tuple(variable.shape) != array.shape:
            raise MismatchError(
                f"{path}: {variable_name(variable)} is {format_shape(array.shape)} but the model's is "
                f"{format_shape(variable.shape)}; the configuration or the vocabulary does not match these weights"
            )


def as_array(array: Any) -> np.ndarray:
    """An array, or the value of a variable without a copy: a view that is invalid after the next assignment."""
    return np.asarray(memoryview(array.read_value()) if isinstance(array, tf.Variable) else array)


def variable_name(variable: tf.Variable) -> str:
    """The name of a variable without the suffix ``:0``, for example ``encoder/layer0/bias``."""
    return str(variable.name).split(":")[0]


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as member:
        array: np.ndarray = np.lib.format.read_array(member, allow_pickle=False)
        if member.read(1):  # reading to the end also verifies the checksum
            raise ValueError(f"{name} is longer than its header says")
    return array


def format_shape(shape: Iterable[Any]) -> str:
    """A shape in an error message: ``512 × 2048``."""
    return " × ".join(str(size) for size in shape) or "a scalar"
