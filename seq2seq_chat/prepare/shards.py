"""What readers hand over: shards, Parquet files of rows, and reports of what was read and what was damaged.

A *piece* is what a reader reads in one go: a file, a member of an archive, or a range of a large
plain file. A *task* is one or more pieces that make a shard. A shard and its report appear whole
or not at all, under a name that tells the pieces, their sizes and dates, and the settings, so that a
stopped preparation goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.corpus.columns import flags, integers
from seq2seq_chat.corpus.files import CorpusError
from seq2seq_chat.errors import UserError

_FORMAT = 6  # raise it whenever a reader or a schema changes its meaning
_ROWS_PER_GROUP = 1 << 17
MOST_EXAMPLES = 100
"""Damages that are told one by one; beyond that they are only counted."""

UTTERANCES = pa.schema(
    [
        pa.field("file", pa.int32(), nullable=False),
        pa.field("thread", pa.int64(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("start", pa.float64()),
        pa.field("end", pa.float64()),
    ]
)
"""Utterances in the order of their file: its place among the inputs, conversation and utterance
counted from 0 within it, clean text, and when it was said, in seconds."""

SPOKEN = UTTERANCES.append(pa.field("before", pa.float64()))
"""Utterances of films, and when the one before it in the file ended (or else began)."""

COMMENTS = pa.schema(
    [
        pa.field("place", pa.int64(), nullable=False),
        pa.field("link", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("parent", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("created", pa.float64()),
    ]
)
"""Comments: a number that grows with the place in the inputs, the full names of the submission, of
the comment itself and of what it answers, clean text, and seconds since 1970."""

MARKS = pa.schema(
    [
        pa.field("file", pa.int32(), nullable=False),
        pa.field("exact", pa.bool_(), nullable=False),
        pa.field("mark", pa.int64(), nullable=False),
    ]
)
"""Marks by which copies of one film are recognised, see ``opensubtitles``."""


class ReadingStopped(CorpusError):
    """Reading ended early. What is finished will not be read again."""


@dataclass(frozen=True)
class ReadingSettings:
    """What readers can be told; a shard is made anew when any of it changes.

    Attributes:
        turns: ``lines`` only: ``running`` conversations, or ``odd-even`` lines that ask and answer.
        subreddits: ``reddit`` only: those to be read, as they are written; none for all.
        max_words: ``reddit`` only: longer comments are left out.
        min_score: ``reddit`` only: comments with a lower score are left out.
    """

    turns: str = "running"
    subreddits: tuple[str, ...] = ()
    max_words: int | None = None
    min_score: int | None = None


@dataclass(frozen=True)
class Piece:
    """Something to be read in one go.

    Attributes:
        file: The place of its file among the inputs.
        path: Where it is.
        member: Its name in the archive at ``path``.
        start, end: The range of bytes, of a plain file that was cut between lines.
        size: The bytes on disk that reading it takes.
        beside: Another file that is read with it.
    """

    file: int
    path: str
    size: int
    member: str | None = None
    start: int = 0
    end: int | None = None
    beside: str | None = None

    @property
    def name(self) -> str:
        return self.path if self.member is None else f"{self.path}, {self.member}"


@dataclass(frozen=True)
class Task:
    """Pieces that make one shard."""

    corpus: str
    settings: ReadingSettings
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    def key(self) -> str:
        """The name of the shard. Raises OSError."""
        paths = {path for piece in self.pieces for path in (piece.path, piece.beside) if path}
        states = {path: os.stat(path) for path in paths}  # noqa: PTH116  there may be many
        content = [
            _FORMAT,
            self.corpus,
            asdict(self.settings),
            [[*vars(piece).values(), os.path.abspath(piece.path)] for piece in self.pieces],
            sorted((path, state.st_size, state.st_mtime_ns) for path, state in states.items()),
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]


@dataclass
class Damage:
    """Something that could not be read and was left out; ``incomplete`` if that is the rest of a file."""

    file: str
    position: str
    reason: str
    incomplete: bool = False

    def __str__(self) -> str:
        return f"{self.file}, {self.position}: {self.reason}" if self.position else f"{self.file}: {self.reason}"


@dataclass
class PieceReport:
    """What was found in a piece.

    Attributes:
        records: What it has of the corpus's own units: lines, comments, subtitle files.
        bad: How many of them are damaged.
        incomplete: Whether the rest of it could not be read at all.
        rows: Rows in the shard.
        threads: Conversations in the shard.
        single: It has no marker between conversations.
    """

    file: int
    records: int = 0
    bad: int = 0
    incomplete: bool = False
    rows: int = 0
    threads: int = 0
    single: bool = False


@dataclass
class Report:
    """What was found in the pieces of a task: the key of its shard, and of the damages the first and the incomplete."""

    key: str = ""
    pieces: list[PieceReport] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)


class Shard:
    """Collects rows, and what else is found, of one task after another piece.

    Attributes:
        report: Of all that was read so far.
        piece: The report of the piece that is being read.
    """

    def __init__(self, folder: Path, schema: pa.Schema, progress: Callable[[int, int], None]) -> None:
        """``progress`` is told bytes and rows as they come."""
        self.report = Report()
        self.piece = PieceReport(0)
        self._name = ""
        self._schema, self._progress = schema, progress
        self._writer = pq.ParquetWriter(folder / "rows.parquet", schema, compression="zstd", compression_level=1)
        self._batches: list[pa.RecordBatch] = []
        self._pending = 0
        self._marks: list[tuple[int, bool, int]] = []
        self._folder = folder

    def begin(self, piece: Piece) -> None:
        """What comes from now on is of this piece."""
        self._name = piece.name
        self.piece = PieceReport(piece.file)
        self.report.pieces.append(self.piece)

    def add(self, **columns: Any) -> None:
        """Take over rows: an Arrow array or a sequence for each column, or a single number for all rows."""
        rows = len(columns["text"])
        if not rows:
            return
        arrays = [_array(columns[name], self._schema.field(name).type, rows) for name in self._schema.names]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._pending += rows
        self.piece.rows += rows
        self._progress(0, rows)
        if self._pending >= _ROWS_PER_GROUP:
            self._flush()

    def mark(self, exact: bool, marks: Sequence[int]) -> None:
        """Take over marks of the present piece's file."""
        self._marks += [(self.piece.file, exact, mark) for mark in marks]

    def read(self, taken: int) -> None:
        """So many bytes were read."""
        self._progress(taken, 0)

    def damage(self, position: str, reason: str, *, incomplete: bool = False) -> None:
        """Note that a record, or with ``incomplete`` the rest of the piece, was left out."""
        self.piece.bad += 1
        self.piece.incomplete |= incomplete
        if incomplete or len(self.report.damages) < MOST_EXAMPLES:
            self.report.damages.append(Damage(self._name, position, reason, incomplete))

    def close(self) -> None:
        self._flush()
        self._writer.close()
        file, exact, mark = np.array(self._marks, np.int64).reshape(-1, 3).T
        arrays = [integers(file, np.int32), flags(exact.astype(bool)), integers(mark)]
        pq.write_table(pa.Table.from_arrays(arrays, schema=MARKS), self._folder / "marks.parquet")

    def abandon(self) -> None:
        """Let go of the file, which is not going to be used."""
        self._batches = []
        self._writer.close()

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_table(pa.Table.from_batches(self._batches), row_group_size=_ROWS_PER_GROUP)
        self._batches, self._pending = [], 0


def _array(values: Any, kind: pa.DataType, rows: int) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if hasattr(values, "__len__"):
        return pa.array(values, kind)
    return integers(np.full(rows, values), np.int32 if kind == pa.int32() else np.int64)


def save_report(report: Report, path: Path) -> None:
    """Write a report whole."""
    with atomic_write(path) as stream:
        json.dump(asdict(report), stream)


def load_report(path: Path) -> Report | None:
    """The report of a finished task, or None if there is none that can be used."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        pieces = [PieceReport(**piece) for piece in content["pieces"]]
        return Report(content["key"], pieces, [Damage(**damage) for damage in content["damages"]])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def unwritable(folder: Path, fault: Exception) -> UserError:
    """What to tell people when the place for the outputs fails."""
    reason = getattr(fault, "strerror", None) or str(fault).splitlines()[0]
    return UserError(f"{folder} cannot be written to: {reason}. Name another folder, or make room there.")
