"""Export a trained run to other formats, each into a new folder.

``saved_model/`` is for programs with TensorFlow, ``onnx.py`` for programs without it, and ``html/`` for a page that
talks in a browser, without a server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import atomic_folder


class ExportError(UserError):
    """The output folder cannot be used."""


def empty_folder(folder: str | Path) -> Path:
    """The absolute path of an empty folder, or of one that does not exist. Raises ExportError if it is another."""
    folder = Path(os.path.abspath(folder))
    try:
        is_empty_folder = folder.is_dir() and not any(folder.iterdir())
        if not is_empty_folder and (folder.exists() or folder.is_symlink()):
            raise ExportError(f"--output {folder} already exists; choose another folder")
    except OSError as error:
        raise ExportError(f"--output {folder}: {error.strerror}; choose another folder") from error
    return folder


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
        raise ExportError(f"--output {folder} could not be written: {error.strerror}; choose another folder") from error
