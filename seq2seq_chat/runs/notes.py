"""What people note about a run: a star, whether lists hide it, and a text; in its file notes.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from seq2seq_chat.system.files import write_json

FILE = "notes.json"


class Notes(NamedTuple):
    """Notes about a run."""

    star: bool = False
    hidden: bool = False
    text: str = ""


def read_notes(run: Path) -> Notes:
    """The notes in a run's folder; empty ones if the file is missing or damaged."""
    try:
        content = json.loads((run / FILE).read_text(encoding="utf-8"))
        notes = Notes(**content)
    except (OSError, ValueError, TypeError, RecursionError):
        return Notes()
    is_valid = [type(value) for value in notes] == [bool, bool, str]
    return notes if is_valid else Notes()


def write_notes(run: Path, notes: Notes) -> None:
    """Write the notes atomically. Raises UserError if the file could not be written."""
    write_json(run / FILE, notes._asdict())
