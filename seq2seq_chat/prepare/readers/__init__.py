"""Readers of raw corpora: a module for each, which defines its CORPUS and is named like its command."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from seq2seq_chat.prepare.shards import Piece, PieceReport, ReaderSettings, Shard

COMPRESSED = r"(\.gz|\.bz2|\.xz|\.zst)?"
"""The end of the names of compressed files, as a regular expression."""


def single_file(path: Path) -> Iterable[Piece]:
    """The file itself. Raises OSError."""
    return [Piece(path, path.stat().st_size)]


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
    combine: Callable[[list[Piece]], list[Piece]] = list  # files that are read together into one
    companion: Callable[[Path], Path | None] = lambda path: None  # a file that is no input, but read with this one
    # Raises CorpusError if the settings do not suit how the files begin
    inspect: Callable[[Any, Sequence[Piece]], None] = lambda settings, files: None
    # Raises CorpusError if the settings do not suit what was read, which the sum of all reports tells.
    check: Callable[[ReaderSettings, PieceReport, Sequence[Piece]], None] = lambda settings, report, files: None


def find_corpus(name: str) -> RawCorpus:
    """The corpus of the module with this name."""
    corpus: RawCorpus = importlib.import_module(f"{__name__}.{name}").CORPUS
    return corpus
