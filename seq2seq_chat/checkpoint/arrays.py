"""Write arrays to a file and read them; damaged files are detected.

A checkpoint or snapshot is an uncompressed ``.npz`` file that NumPy can load: an array for each variable, under its
name, and ``metadata.json``. The zip format keeps a checksum of each member.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from seq2seq_chat.architecture.variables import Shape, variable_shapes
from seq2seq_chat.config import Config, describe_changes, flat_settings, resume_settings, trained_settings
from seq2seq_chat.runs.json_lines import is_step, read_json_lines
from seq2seq_chat.runs.run import Run, RunError, snapshot_name
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import Draft, as_user_error, atomic_folder, create_parents, file_checksum
from seq2seq_chat.text.codec import Codecs

logger = logging.getLogger(__name__)

METADATA = "metadata.json"
DAMAGE_ERRORS = (  # what zipfile and NumPy raise for truncated files and flipped bits
    *(zipfile.BadZipFile, zlib.error, ValueError, TypeError, LookupError, EOFError, OSError, NotImplementedError),
    *(RuntimeError, OverflowError, SyntaxError, struct.error, tokenize.TokenError),
)
NO_DAMAGE = {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class DamagedCheckpoint(Exception):
    """A checkpoint that is truncated or corrupted, or a file that is not a checkpoint."""


class MismatchError(UserError):
    """An intact checkpoint of another model."""


def write_arrays(path: Path, arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    """Write named arrays and metadata atomically.

    Args:
        arrays: By name: arrays, or what ``numpy.asarray`` makes one of; they are converted one after another.
        metadata: JSON values.

    Raises:
        UserError: The file could not be written.
    """
    draft_arrays(path, arrays, metadata).publish()


def draft_arrays(path: Path, arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> Draft:
    """Write arrays like :func:`write_arrays`, but leave ``Draft.publish`` to the caller; they may change before that.

    Raises:
        UserError: The file could not be written.
    """
    with as_user_error(path):
        create_parents(path)
    draft = Draft(path, "wb")
    try:
        with as_user_error(path), zipfile.ZipFile(draft.stream, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
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
        UserError: There is not enough memory for its arrays, or the file may not be opened now.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _ensure_stored(archive, path.stat().st_size)
            members = set(archive.namelist())
            missing = [name for name in names if f"{name}.npy" not in members]
            if missing:
                if archive.testzip() is not None:  # the name itself may be damaged
                    raise zipfile.BadZipFile(f"{missing[0]} is missing")
                raise MismatchError(f"{path} has no variable {missing[0]}; it belongs to another model or optimizer")
            present = [*names, *(name for name in optional if f"{name}.npy" in members)]
            arrays = {name: _read_array(archive, name) for name in present}
            metadata = json.loads(archive.read(METADATA))
            if not isinstance(metadata, dict):
                raise ValueError(f"{METADATA} is not an object")
            return arrays, metadata
    except MemoryError as error:  # its members are no larger than the file
        raise UserError(f"{path} could not be read: not enough memory; close other programs") from error
    except DAMAGE_ERRORS as error:
        if isinstance(error, OSError) and error.errno in NO_DAMAGE:
            raise UserError(f"{path} could not be read: {error.strerror}") from error
        raise DamagedCheckpoint(f"{path}: {error}") from error


def _ensure_stored(archive: zipfile.ZipFile, size: int) -> None:
    """Raise BadZipFile if the members are larger than the file, which only a crafted one can achieve."""
    members = archive.infolist()
    is_stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    if not is_stored or sum(member.file_size for member in members) > size:
        raise zipfile.BadZipFile("it is compressed, or its members overlap")


def ensure_shapes(path: Path, arrays: Mapping[str, np.ndarray], shapes: Mapping[str, Shape]) -> None:
    """Raise MismatchError if an array of a checkpoint has another shape than its variable."""
    for name, array in arrays.items():
        if array.shape != shapes[name]:
            raise MismatchError(
                f"{path}: {name} is {format_shape(array.shape)} but the model's is {format_shape(shapes[name])}; the "
                "configuration or the vocabulary does not match these weights"
            )


def ensure_same_codecs(path: Path, metadata: Mapping[str, Any], codecs: Codecs) -> None:
    """Raise MismatchError if the weights were trained with another vocabulary or tokenizer."""
    for name, fingerprint in codecs.fingerprints().items():
        if metadata.get(name, fingerprint) != fingerprint:
            what = name.replace("_", " ")
            file = f"{name}.{'txt' if name.endswith('vocabulary') else 'json'}"
            raise MismatchError(f"{path} was trained with a different {what}; restore the original {file} of the run")


def ensure_same_settings(run: Run, config: Config, path: Path, metadata: Mapping[str, Any]) -> None:
    """Compare the configuration of a run with the settings that a checkpoint was trained with.

    Logs which decoding settings have changed since, or that the lexicon has.

    Raises:
        MismatchError: Settings of the model or the data have changed.
    """
    settings, file = metadata.get("settings"), run.path / "config.json"
    trained = settings if isinstance(settings, dict) else {}
    if changes := describe_changes(trained, resume_settings(config)):
        raise MismatchError(
            f"{file} differs from the settings that {path.name} was trained with: {changes}; restore it, or train a "
            "new run"
        )
    decoding = {key: value for key, value in flat_settings(config).items() if key.startswith("decoding.")}
    if changes := describe_changes(trained, decoding):
        logger.info("%s has changed since %s was saved: %s", file, path.name, changes)
    checksum = metadata.get("lexicon")
    if checksum is not None and run.lexicon_file.is_file() and file_checksum(run.lexicon_file) != checksum:
        logger.info("%s has changed since %s was saved", run.lexicon_file, path.name)


class TrainedWeights(NamedTuple):
    """The weights of a run."""

    arrays: dict[str, np.ndarray]  # by the names of the variables
    codecs: Codecs
    step: int  # training step of the weights
    warnings: list[str]  # damaged checkpoints that were skipped


def read_weights(run: Run, snapshot: str | None = None) -> TrainedWeights:
    """Read the weights of a run from the first of its files that is not damaged.

    Logs a warning for each damaged file.

    Args:
        snapshot: Name of the snapshot; None for the newest weights.

    Raises:
        RunError: There are no weights, or all files are damaged.
        MismatchError: The weights do not match the vocabulary or the configuration.
    """
    config, codecs, files = run.config, run.codecs, run.weight_files(snapshot)
    shapes = variable_shapes(config, *codecs.vocabulary_sizes)
    warnings: list[str] = []
    for path in files:
        try:
            ensure_same_settings(run, config, path, read_arrays(path, [])[1])
            arrays, metadata = read_arrays(path, shapes)
            ensure_shapes(path, arrays, shapes)
            ensure_same_codecs(path, metadata, codecs)
            if any(array.dtype != np.float32 for array in arrays.values()) or not is_step(metadata.get("step")):
                raise DamagedCheckpoint(f"{path}: its weights or its step are invalid")
            return TrainedWeights(arrays, codecs, metadata["step"], warnings)
        except DamagedCheckpoint as error:
            warnings.append(f"{error}; the file is damaged" + ("" if path == files[-1] else ", using the previous one"))
            logger.warning("%s", warnings[-1])
    raise RunError(
        f"run {run.name}: {files[0].name} is damaged"
        + (", and so are all earlier ones" if len(files) > 1 else "")
        + "; restore the file from a backup, or choose another snapshot"
    )


def format_shape(shape: Iterable[Any]) -> str:
    """A shape in an error message: ``512 × 2048``."""
    return " × ".join(str(size) for size in shape) or "a scalar"


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as member:
        if np.lib.format.read_magic(member) != (1, 0):
            raise ValueError(f"{name} has an unsupported version of the format")
        shape, _, dtype = np.lib.format.read_array_header_1_0(member)
        if member.tell() + math.prod(shape) * dtype.itemsize != archive.getinfo(f"{name}.npy").file_size:
            raise ValueError(f"{name} does not have the size that its header says")  # before memory is allocated for it
        member.seek(0)
        array: np.ndarray = np.lib.format.read_array(member, allow_pickle=False)
        member.read(1)  # reading to the end verifies the checksum
    return array


def steps_to_average(run: Run, last: int | None = None, best: int | None = None) -> list[int]:
    """The training steps of the weights to average, earliest first.

    Args:
        last: How many of the newest weights; None: all that it keeps.
        best: How many of the weights with the lowest validation loss, instead.

    Raises:
        RunError: The run does not keep as many.
    """
    steps, kind = run.saved_steps(), "saved weights"
    if best is not None:
        validations = (line for line in read_json_lines(run.metrics_file) if line.get("kind") == "validation")
        losses = {line["step"]: line["loss"] for line in validations}
        steps = sorted((step for step in steps if step in losses), key=lambda step: (losses[step], step))
        kind = "saved weights of a validation"
    wanted = best or last or len(steps)
    if len(steps) < max(2, wanted):
        found = ", ".join(f"{step:,}" for step in sorted(steps)) or "none"
        raise RunError(
            f"run {run.name} has fewer than {max(2, wanted)} {kind} (steps: {found}); training.keep_checkpoints and "
            "training.snapshot_every say how many are kept"
        )
    return sorted(steps[:wanted] if best is not None else steps[-wanted:])


def average_weights(run: Run, steps: list[int], output: Path) -> Run:
    """Write a run whose weights are the mean of a run's weights at some steps (Junczys-Dowmunt et al. 2016).

    It has the configuration and the vocabularies of the run, and one snapshot, named after the last of the steps.

    Raises:
        RunError: Weights are damaged.
        UserError: The folder exists or cannot be written.
    """
    if output.exists():
        raise UserError(f"{output} already exists; choose another --output")
    sums: dict[str, np.ndarray] = {}
    for step in tqdm(steps, unit="file", disable=None):
        for name, array in read_weights(run, snapshot_name(step)).arrays.items():
            sums[name] = sums.get(name, 0.0) + array.astype(np.float64)
    config, codecs = run.config, run.codecs
    with as_user_error(output), atomic_folder(output) as folder:
        averaged = Run(folder)
        averaged.save_config(config)
        codecs.save(folder)
        path = averaged.snapshot_path(steps[-1])
        metadata = {"step": steps[-1], **codecs.fingerprints(), "settings": trained_settings(config)}
        write_arrays(path, {name: (total / len(steps)).astype(np.float32) for name, total in sums.items()}, metadata)
        averaged.record_start({"step": steps[-1], "averaged": {"run": run.name, "steps": steps}})
        averaged.record_end("finished", steps[-1])
    return Run(output)
