"""Export a trained run to other formats.

Each format has its own package: ``saved_model`` for programs with TensorFlow, ``onnx`` for programs without it, and
``html`` for a page that talks in a browser, without a server. Their ``export.py`` writes the output folder.
"""

from __future__ import annotations

from pathlib import Path

from seq2seq_chat.system.errors import UserError


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
