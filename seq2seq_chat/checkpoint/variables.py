"""Checkpoints and snapshots: variables in one file, written whole, damage recognised.

The file is an ordinary uncompressed ``.npz`` (NumPy loads it): one array for each variable, named like it, and
``metadata.json``. The zip format keeps a checksum of each member.
"""

from __future__ import annotations

import json
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from seq2seq_chat.atomic import Draft, told_as_user_error
from seq2seq_chat.errors import UserError

METADATA = "metadata.json"
DAMAGE = (  # what zipfile and NumPy raise for files that were cut short or have wrong bits
    *(zipfile.BadZipFile, zlib.error, ValueError, TypeError, LookupError, EOFError, OSError, NotImplementedError),
    *(RuntimeError, MemoryError, OverflowError, SyntaxError, struct.error, tokenize.TokenError),
)


class DamagedCheckpoint(Exception):
    """A file that is no complete checkpoint: cut short, bits flipped, or something else altogether."""


class MismatchError(UserError):
    """A whole checkpoint, but of another model."""


def save_variables(path: Path, variables: Iterable[tf.Variable], metadata: Mapping[str, Any]) -> None:
    """Write variables and metadata; the file appears complete or not at all."""
    write_arrays(path, {plain_name(variable): variable for variable in variables}, metadata)


def write_arrays(path: Path, arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    """Write arrays, or variables, by name; the file appears complete or not at all.

    Raises:
        UserError: the file could not be written.
    """
    draft_arrays(path, arrays, metadata).publish()


def draft_arrays(
    path: Path, arrays: Mapping[str, Any], metadata: Mapping[str, Any], mode: Literal["wb", "direct"] = "wb"
) -> Draft:
    """The same, up to the point where nothing more is needed of the arrays; the rest is up to ``Draft.publish``.

    Raises:
        UserError: the file could not be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = Draft(path, mode)
    try:
        with told_as_user_error(path), zipfile.ZipFile(draft.stream, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, values(array), allow_pickle=False)
            archive.writestr(METADATA, json.dumps(dict(metadata)))
    except BaseException:
        draft.discard()
        raise
    return draft


def read_arrays(
    path: Path, names: Iterable[str], optional: Iterable[str] = ()
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays called ``names``, those called ``optional`` that are there, and the metadata of a checkpoint.

    Raises:
        DamagedCheckpoint: the file is not whole.
        MismatchError: the file is whole but has no array of one of the names.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = set(archive.namelist())
            missing = [name for name in names if f"{name}.npy" not in members]
            if missing:
                if archive.testzip() is not None:  # a name may be missing because it was damaged
                    raise zipfile.BadZipFile(f"{missing[0]} cannot be found")
                raise MismatchError(f"{path}: has no variable {missing[0]}; it belongs to another model or optimizer")
            found = [*names, *(name for name in optional if f"{name}.npy" in members)]
            arrays = {name: _read_array(archive, name) for name in found}
            return arrays, json.loads(archive.read(METADATA))
    except DAMAGE as error:
        raise DamagedCheckpoint(f"{path}: {error}") from error


def load_variables(
    path: Path, variables: Iterable[tf.Variable], optional: Iterable[tf.Variable] = ()
) -> dict[str, Any]:
    """Give variables the values of a checkpoint, all or none, and return its metadata.

    ``optional`` variables keep their values where the checkpoint has none for them.

    Raises:
        DamagedCheckpoint: the file is not whole.
        MismatchError: the file is of a model of another shape.
    """
    variables = list(variables)
    optional = {plain_name(variable): variable for variable in optional}
    arrays, metadata = read_arrays(path, [plain_name(variable) for variable in variables], optional)
    variables += [variable for name, variable in optional.items() if name in arrays]
    for variable in variables:
        array = arrays[plain_name(variable)]
        if tuple(variable.shape) != array.shape:
            raise MismatchError(
                f"{path}: {plain_name(variable)} is {_shape(array.shape)} but the model's is {_shape(variable.shape)}; "
                "the configuration or the vocabulary does not belong to these weights"
            )
    for variable in variables:
        variable.assign(arrays[plain_name(variable)])
    return metadata


def values(array: Any) -> np.ndarray:
    """The values of a variable, as it keeps them: no copy, and gone with the next step. Arrays as they are."""
    return np.asarray(memoryview(array.read_value()) if isinstance(array, tf.Variable) else array)


def plain_name(variable: tf.Variable) -> str:
    """A variable's name without TensorFlow's suffix: encoder/layer0/bias."""
    return str(variable.name).split(":")[0]


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as member:
        array: np.ndarray = np.lib.format.read_array(member, allow_pickle=False)
        if member.read(1):  # also makes the archive compare the checksum
            raise ValueError(f"{name} is longer than it says")
    return array


def _shape(shape: Iterable[Any]) -> str:
    return " × ".join(str(size) for size in shape) or "a number"
