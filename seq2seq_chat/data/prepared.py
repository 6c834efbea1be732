"""Folders that ``seq2seq-chat prepare`` has written: whether their files belong together, and which were edited."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.system.files import file_checksum

logger = logging.getLogger(__name__)

STATISTICS_FILE = "statistics.json"
"""Describes the prepared files, with a checksum of each."""
WORKING_FOLDER = ".preparing"
COMPLETE_FOLDER = "complete"
"""In the working folder: complete results, until they have replaced those of an earlier preparation."""


def ensure_published(paths: Iterable[Path]) -> None:
    """Raise CorpusError if a preparation was killed while it replaced files in a folder of one of the paths."""
    for folder in {path.parent for path in paths}:
        if (folder / WORKING_FOLDER / COMPLETE_FOLDER / STATISTICS_FILE).exists():
            raise CorpusError(
                f"{folder} has files of two preparations, because seq2seq-chat prepare was stopped while it replaced "
                "them. Run the same command again."
            )


def warn_of_edits(paths: Iterable[Path]) -> None:
    """Warn if files that ``prepare`` has written were changed since."""
    edited = []
    for path in paths:
        with suppress(OSError, ValueError, TypeError, KeyError):  # not from `prepare`, or from an earlier version
            files = json.loads((path.parent / STATISTICS_FILE).read_text(encoding="utf-8"))["files"]
            if path.name in files and file_checksum(path) != files[path.name]:
                edited.append(str(path))
    if edited:
        logger.warning("%s changed since `seq2seq-chat prepare` wrote it; it is used as it is", " and ".join(edited))
