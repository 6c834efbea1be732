"""Which files the inputs of a preparation name, and how they are cut into tasks."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa

from seq2seq_chat.corpus.compressed import is_compressed, line_starts
from seq2seq_chat.corpus.files import CorpusError
from seq2seq_chat.corpus.lines import unreadable
from seq2seq_chat.corpus.opensubtitles import ZIP_FAULTS, read_opensubtitles
from seq2seq_chat.corpus.readers import cornell_lines_file, read_cornell, read_dailydialog, read_lines, read_pairs
from seq2seq_chat.corpus.reddit import read_reddit
from seq2seq_chat.corpus.shards import COMMENTS, SPOKEN, UTTERANCES, Piece, ReadingSettings, Shard, Task

_TASK_BYTES = 1 << 24
_RANGE_BYTES = 1 << 26
_PACKED = r"(\.gz|\.bz2|\.xz|\.zst)?"

Reader = Callable[[Piece, ReadingSettings, Shard], None]


@dataclass(frozen=True)
class Corpus:
    """How a kind of raw corpus is found and read.

    Attributes:
        read: Reads one piece into a shard.
        schema: Of the rows that it makes.
        names: The names of its files in a folder.
        described: The same for people.
        deep: Whether folders in folders are looked into.
        ranges: Whether a large plain file may be cut between lines and read by several processes.
        named: Whether a file is a conversation known by its name, wherever it lies.
    """

    read: Reader
    schema: pa.Schema
    names: re.Pattern[str]
    described: str
    deep: bool = False
    ranges: bool = False
    named: bool = False


_TEXT = re.compile(rf".*\.txt{_PACKED}")

CORPORA: dict[str, Corpus] = {
    "opensubtitles": Corpus(
        read_opensubtitles,
        SPOKEN,
        re.compile(rf".*(\.xml{_PACKED}|\.zip)"),
        ".xml, .xml.gz or .zip",
        deep=True,
        named=True,
    ),
    "reddit": Corpus(
        read_reddit,
        COMMENTS,
        re.compile(rf"(RC_[^.]*|.*\.(json|jsonl|ndjson)){_PACKED}"),
        "RC_… or .json (.gz, .bz2, .xz, .zst)",
        ranges=True,
    ),
    "cornell": Corpus(
        read_cornell, UTTERANCES, re.compile(rf".*conversations.*\.txt{_PACKED}"), "movie_conversations.txt"
    ),
    "dailydialog": Corpus(read_dailydialog, UTTERANCES, _TEXT, ".txt or .txt.gz"),
    "lines": Corpus(read_lines, UTTERANCES, _TEXT, ".txt or .txt.gz"),
    "tweets": Corpus(read_pairs, UTTERANCES, _TEXT, ".txt or .txt.gz"),
}
"""The corpora by the names that people use."""


@dataclass(frozen=True)
class Input:
    """A file, or a member of an archive."""

    path: Path
    size: int
    member: str | None = None

    @property
    def film(self) -> str:
        """Year, film and subtitle file of a path as OPUS has them, whatever it lies in: ``2018/7008412/7008412``."""
        parts = (PurePosixPath(self.member) if self.member else self.path.absolute()).parts[-3:]
        name = re.sub(rf"\.xml{_PACKED}$", "", "/".join(parts))
        return name.encode(errors="backslashreplace").decode()


def find_inputs(corpus: str, inputs: Sequence[str | Path]) -> list[Input]:
    """The files that the inputs name, each once, in an order that the disk has no say in.

    Raises:
        CorpusError: There are none, or they cannot be read.
    """
    kind = CORPORA[corpus]
    found: dict[tuple[Path, str | None], Input] = {}
    for entry in map(Path, inputs):
        try:
            paths = _in_folder(entry, kind) if entry.is_dir() else _named(entry, corpus)
            for path in paths:
                for item in (
                    _members(path) if path.suffix == ".zip" and kind.deep else [Input(path, path.stat().st_size)]
                ):
                    found.setdefault((item.path, item.member), item)
        except OSError as fault:
            raise unreadable(Path(fault.filename or entry), fault, CorpusError) from fault
    if not found:
        raise CorpusError("There is nothing to prepare. Name at least one file or folder.")
    return list(found.values())


def _in_folder(folder: Path, kind: Corpus) -> list[Path]:
    found = []
    for top, folders, names in os.walk(folder, onerror=_raise):
        found += [Path(top, name) for name in names if not name.startswith(".") and kind.names.fullmatch(name)]
        if not kind.deep:
            folders.clear()
            found = [path for path in found if path.is_file()]
    found.sort(key=lambda path: path.parts)
    if not found:
        raise CorpusError(f"{folder} holds no {kind.described} file. Name the files themselves.")
    return found


def _raise(fault: OSError) -> None:
    raise fault


def _named(path: Path, corpus: str) -> Iterable[Path]:
    path.stat()
    if corpus == "opensubtitles" and path.suffix == ".txt":
        return _listed(path)
    if corpus == "cornell" and "conversations" not in path.name:
        # Either of the two files will do; lines alone are not in an order.
        conversations = sorted(path.parent.glob("*conversations*"))
        return [file for file in conversations if cornell_lines_file(file) == path] or [path]
    return [path]


def _listed(path: Path) -> Iterator[Path]:
    """The files that are named in a list, one a line, relative to the working directory."""
    try:
        names = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as fault:
        raise CorpusError(f"{path} is no list of files: it is not UTF-8. Write one path a line.") from fault
    for name in filter(None, map(str.strip, names)):
        Path(name).stat()
        yield Path(name)


def _members(path: Path) -> list[Input]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                Input(path, info.compress_size, info.filename)
                for info in archive.infolist()
                if info.filename.endswith(".xml")
            ]
    except ZIP_FAULTS:
        return [Input(path, path.stat().st_size)]  # told as damage when it is read
    if not members:
        raise CorpusError(f"{path} holds no .xml file. Name the archive of the monolingual XML files.")
    return sorted(members, key=lambda item: PurePosixPath(item.member or "").parts)


def plan_tasks(corpus: str, settings: ReadingSettings, inputs: Sequence[Input]) -> list[Task]:
    """Cut the inputs into tasks: small files together, large plain ones of lines into ranges.

    Raises:
        CorpusError: A file cannot be read.
    """
    kind = CORPORA[corpus]
    tasks: list[Task] = []
    pieces: list[Piece] = []
    for number, item in enumerate(inputs):
        for piece in _pieces(kind, number, item):
            pieces.append(piece)
            if sum(held.size for held in pieces) >= _TASK_BYTES:
                tasks.append(Task(corpus, settings, tuple(pieces)))
                pieces = []
    if pieces:
        tasks.append(Task(corpus, settings, tuple(pieces)))
    return tasks


def _pieces(kind: Corpus, number: int, item: Input) -> list[Piece]:
    path = str(item.path)
    try:
        if kind.ranges and item.size > _RANGE_BYTES and not is_compressed(item.path):
            starts = line_starts(item.path, _RANGE_BYTES)
            ends = [*starts[1:], item.size]
            return [
                Piece(number, path, end - start, start=start, end=end) for start, end in zip(starts, ends, strict=True)
            ]
    except OSError as fault:
        raise unreadable(item.path, fault, CorpusError) from fault
    beside = str(cornell_lines_file(item.path)) if kind.read is read_cornell else None
    return [Piece(number, path, item.size, item.member, beside=beside)]
