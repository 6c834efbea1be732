"""``model.json``, which describes the other files of an exported model: what they are, and their checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from seq2seq_chat.runs.run import MODEL_FILE
from seq2seq_chat.system.errors import UserError, cut
from seq2seq_chat.system.files import write_json

ENCODER_FILE, STEP_FILE = "encoder.onnx", "decoder_step.onnx"
FORMAT = 1  # of an exported model; a later version reads all earlier ones
CHECKSUM = "sha256"

RESTORE = "restore it from a backup, or export the run again"


class ExportedModelError(UserError):
    """An exported model is damaged, or this version cannot read it."""


def _inside(name: str) -> str:
    """The name of a file in the folder. Raises ValueError if it leads out of it."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise ValueError("not a file in the folder")
    return name


class _File(BaseModel):
    bytes: Annotated[int, Field(ge=0)]
    sha256: str


class _Manifest(BaseModel):
    """What is read of ``model.json``."""

    model_config = ConfigDict(strict=True)

    files: dict[Annotated[str, Field(max_length=255), AfterValidator(_inside)], _File]
    task: Literal["conversation", "translation", "language_model"]
    step: Annotated[int, Field(ge=0)]
    opset: int
    vocabulary_size: Annotated[int, Field(gt=0)]
    state: list[str]
    state_sizes: list[Annotated[int, Field(gt=0, le=10**6)]]
    memory: list[str]


def write_manifest(folder: Path, contents: Mapping[str, Any]) -> None:
    """Write ``model.json`` for the files in ``folder``, with the checksums of all of them and its own."""
    files = {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, CHECKSUM: _file_checksum(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    manifest = {"format": FORMAT, **contents, "files": files}
    write_json(folder / MODEL_FILE, {**manifest, CHECKSUM: _own_checksum(manifest)})


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read ``model.json`` and verify all files.

    Raises:
        ExportedModelError: A file is missing or altered, or a newer version has written it.
    """
    path = folder / MODEL_FILE
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExportedModelError(f"{path} could not be read: {error.strerror}; {RESTORE}") from error
    except (ValueError, RecursionError):
        raise ExportedModelError(f"{path} is damaged: it is not valid JSON; {RESTORE}") from None
    if not isinstance(manifest, dict):
        raise ExportedModelError(f"{path} is damaged: it is not a JSON object; {RESTORE}")
    version = manifest.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise ExportedModelError(
            f"{folder} has format {version} of exported models, but this version reads only up to {FORMAT}; "
            "update seq2seq-chat"
        )
    if manifest.get(CHECKSUM) != _own_checksum(manifest):
        raise ExportedModelError(f"{path} was altered: it does not match its checksum; {RESTORE}")
    try:
        _Manifest.model_validate(manifest)
    except ValidationError as error:
        key = cut(".".join(map(str, error.errors()[0]["loc"])))
        raise ExportedModelError(f"{path} is damaged: {key} is missing or invalid; {RESTORE}") from None
    for name, file in manifest["files"].items():
        _verify(folder / name, file)
    return manifest


def _verify(path: Path, expected: Mapping[str, Any]) -> None:
    """Raise ExportedModelError if a file is missing or altered."""
    try:
        size = path.stat().st_size
        if size != expected["bytes"]:
            raise ExportedModelError(f"{path} is damaged: it has {size:,} bytes, not {expected['bytes']:,}; {RESTORE}")
        checksum = _file_checksum(path)
    except OSError as error:
        raise ExportedModelError(f"{path} could not be read: {error.strerror}; {RESTORE}") from error
    if checksum != expected[CHECKSUM]:
        raise ExportedModelError(f"{path} was altered: it does not match its checksum in {MODEL_FILE}; {RESTORE}")


def _file_checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _own_checksum(manifest: Mapping[str, Any]) -> str:
    """The checksum of all contents but the checksum itself."""
    contents = {name: value for name, value in manifest.items() if name != CHECKSUM}
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()
