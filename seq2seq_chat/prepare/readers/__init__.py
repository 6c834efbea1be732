"""Readers of raw corpora: a module for each, which defines its CORPUS and is named like its command."""

from __future__ import annotations

import importlib
import re
import struct
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from seq2seq_chat.prepare.shards import Piece, PieceReport, ReaderSettings, Shard
from seq2seq_chat.system.compressed import DECOMPRESSION_ERRORS

COMPRESSED = r"(\.gz|\.bz2|\.xz|\.zst)?"
"""The end of the names of compressed files, as a regular expression."""
ZIP_ERRORS = (zipfile.BadZipFile, *DECOMPRESSION_ERRORS, KeyError, NotImplementedError, RuntimeError, struct.error)
"""Exceptions that reading a damaged or modified archive may raise."""


def single_file(path: Path) -> list[Piece]:
    """The file itself. Raises OSError."""
    return [Piece(path, path.stat().st_size)]


def archive_members(path: Path, names: str) -> list[Piece]:
    """The members of a ZIP archive whose names match a regular expression, in the order of their folders.

    Raises:
        OSError: The file cannot be read. Other ZIP_ERRORS: it is damaged.
    """
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if re.fullmatch(names, info.filename)]
    pieces = [Piece(path, info.compress_size, info.filename) for info in members]
    return sorted(pieces, key=lambda piece: PurePosixPath(piece.member or "").parts)


def open_archive(path: Path) -> zipfile.ZipFile:
    """An archive, which stays open. Raises OSError, and ZIP_ERRORS if it is damaged."""
    state = path.stat()
    return _open_archive(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=1)
def _open_archive(path: Path, _size: int, _modified: int) -> zipfile.ZipFile:
    """An open archive; size and date are part of the cache key because the file may be modified."""
    return zipfile.ZipFile(path)


@dataclass(frozen=True)
class RawCorpus:
    """A kind of raw corpus: which files belong to it, and how they are read."""

    read: Callable[[Piece, Any, Shard], None]  # reads one piece into a shard, with an instance of ``settings``
    schema: pa.Schema  # of the rows
    file_names: str  # regular expression for the names of its files in a folder
    description: str  # of the file names, for error messages
    unit: str = "lines"  # what is counted if it is left out; utterances if records consist of several
    threads: str = "conversations"  # what is never divided between splits
    settings: type[ReaderSettings] = ReaderSettings  # with the options of this reader
    recursive: bool = False  # whether to search subfolders
    # Whether a large plain file may be divided between lines and read by several processes
    divisible: Callable[[Path], bool] = lambda path: False
    file_is_film: bool = False  # whether each file is one conversation, identified by its name
    expand: Callable[[Path], Iterable[Piece]] = single_file  # a named file to what it stands for, as an archive
    choose: Callable[[list[Path]], list[Path]] = list  # of the files in a folder with suitable names
    # Those of all files that are read, perhaps combined. Raises CorpusError if the settings do not suit the files.
    select: Callable[[Any, list[Piece]], list[Piece]] = lambda settings, files: files
    companion: Callable[[Path], Path | None] = lambda path: None  # a file that is no input, but read with this one
    # Raises CorpusError if the settings do not suit what was read, which the sum of all reports tells.
    check: Callable[[Any, PieceReport, Sequence[Piece]], None] = lambda settings, report, files: None


_SHARED_MODULES = dict.fromkeys(("tweets", "dailydialog", "text"), "lines")


def find_corpus(name: str) -> RawCorpus:
    """The CORPUS of the module with this name, or one of several in a module, such as TWEETS."""
    module = importlib.import_module(f"{__name__}.{_SHARED_MODULES.get(name, name)}")
    corpus: RawCorpus = getattr(module, name.upper() if name in _SHARED_MODULES else "CORPUS")
    return corpus
