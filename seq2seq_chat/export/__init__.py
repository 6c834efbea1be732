"""Export a trained run to other formats, each into a new folder.

``saved_model/`` is for programs with TensorFlow, ``onnx.py`` for programs without it, and ``html/`` for a page that
talks in a browser, without a server.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import atomic_folder


class ExportError(UserError):
    """The output folder cannot be used."""


def ensure_empty(folder: Path) -> None:
    """Raise ExportError if ``folder`` exists and is not an empty folder, or is inaccessible."""
    try:
        is_empty_folder = folder.is_dir() and not any(folder.iterdir())
        if not is_empty_folder and (folder.exists() or folder.is_symlink()):
            raise ExportError(f"--output {folder} already exists; choose another folder")
    except OSError as error:
        raise ExportError(f"--output {folder}: {error.strerror}; choose another folder") from error


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, which becomes ``folder`` at the end.

    Raises:
        ExportError: It cannot be written.
    """
    try:
        with atomic_folder(folder) as temporary:
            yield temporary
    except OSError as error:
        raise unwritable(folder, error.strerror) from error


def unwritable(folder: Path, reason: str | None) -> ExportError:
    """The error of a folder that cannot be written."""
    return ExportError(f"--output {folder} could not be written: {reason}; choose another folder")
