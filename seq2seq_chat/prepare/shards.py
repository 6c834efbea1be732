"""Shards: the Parquet files that readers write, with reports of what was read and what is damaged.

A *piece* is the unit of reading: a file, a member of an archive, or a byte range of a large plain file. A *task* is one
or more pieces that are read into one shard. Shards and reports are written atomically; their name is a hash of the
pieces, the sizes and dates of their files, and the reader settings, so that an interrupted preparation can resume.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.samples import SAMPLE_UTTERANCES, Letters
from seq2seq_chat.system.files import file_checksum, write_atomically
from seq2seq_chat.system.lines import read_error
from seq2seq_chat.text.tokenizers import TokenizerSettings

_FORMAT = 16  # increment it whenever a reader or a schema changes
_ROWS_PER_GROUP = 1 << 17
MAX_EXAMPLES, MAX_EXAMPLE_LENGTH = 2, 60
"""Examples for a reason why something was left out, and their length in characters."""
NOTHING_KEPT = "nothing that the tokenizer keeps"
"""Why an utterance is left out of which nothing is left."""
MARKERS, BLANK, INCOMPLETE_PAIR = "ends of conversations", "empty", "the other line of the pair is missing"
"""Why lines are left out; the first two are no utterances."""
OTHER_SUBREDDITS, UNPAIRED = "in other subreddits", "without a parent or reply among the others"
SUBMISSIONS = "submissions"
"""Why comments are left out, or lines of dumps that are none."""
HEADER = "the names of the columns"
"""Why a row of a table is left out."""
EXPECTED = frozenset([HEADER, MARKERS, BLANK, OTHER_SUBREDDITS, UNPAIRED, SUBMISSIONS])
"""Reasons for which much may be left out of a good corpus."""
MAX_DAMAGES = 100
"""Damaged records that are described; further ones are only counted."""


def make_schema(required: Mapping[str, pa.DataType], nullable: Mapping[str, pa.DataType] | None = None) -> pa.Schema:
    """A schema of columns without nulls, followed by some with nulls."""
    fields = [pa.field(name, kind, nullable=False) for name, kind in required.items()]
    return pa.schema([*fields, *(pa.field(name, kind) for name, kind in (nullable or {}).items())])


UTTERANCES = make_schema(
    {"file": pa.int32(), "conversation": pa.int64(), "position": pa.int64(), "text": pa.string()},
    {"start": pa.float64(), "end": pa.float64()},
)
"""Utterances in the order of their file: the number of the file among the inputs, the numbers of the conversation and
of the utterance within the file (from 0), the text that corpus files hold, and the times in seconds."""

SUBTITLES = UTTERANCES.append(pa.field("previous_end", pa.float64()))
"""Utterances of films, with the end (or, if unknown, the start) of the previous one in the file."""

COMMENTS = make_schema(
    {"ordinal": pa.int64(), "link": pa.string(), "id": pa.string(), "parent": pa.string(), "text": pa.string()},
    {"created": pa.float64()},
)
"""Comments: a number that increases in the order of the inputs; the full names of the submission, of the comment and of
its parent; the text that corpus files hold; and the time in seconds since 1970."""

PAIRS = pa.schema(
    [
        *make_schema({"file": pa.int32(), "line": pa.int64(), "text": pa.string()}, {"tokens": pa.string()}),
        *make_schema({"target_text": pa.string()}, {"target_tokens": pa.string()}),
    ]
)
"""Pairs: the number of the file among the inputs, and one that increases with the lines of a file; source and target as
corpus files hold them, and their tokens, which are null if they are the text or the tokenizer is not ready."""

TOKENS = pa.field("tokens", pa.string(), nullable=False)
"""The tokens of a text, separated by single spaces; only if they differ from the text and the tokenizer is ready."""

FINGERPRINTS = make_schema({"file": pa.int32(), "exact": pa.bool_(), "fingerprint": pa.int64()})
"""Fingerprints that identify copies of the same film, see ``readers.opensubtitles``."""


class ReadingStopped(CorpusError):
    """Reading ended early. Finished shards are kept."""


@dataclass(frozen=True, kw_only=True)
class ReaderSettings:
    """Settings of readers. Changing one invalidates existing shards; readers with options have a subclass."""

    # Both are set by `PrepareSettings.shard_settings`.
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    target_tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)  # pairs only


@dataclass(frozen=True)
class Piece:
    """The unit of reading; at first, all of an input."""

    path: Path
    size: int  # bytes on disk, of both files if a companion is an input, too
    member: str | None = None  # name in an archive
    companion: Path | None = None  # another file that is read together with it
    companion_member: str | None = None
    file: int = 0  # index of its file among the inputs
    start: int = 0  # first byte, in a plain file that was divided between lines
    end: int | None = None  # end of the byte range; None for the end of the file

    @property
    def name(self) -> str:
        """The name of the file without its folder."""
        return PurePosixPath(self.member or self.path).name

    def __str__(self) -> str:
        return f"{self.path}, {self.member}" if self.member else str(self.path)


@dataclass(frozen=True)
class Task:
    """The pieces of one shard."""

    corpus: str
    settings: ReaderSettings
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    def key(self) -> str:
        """The name of the shard. Raises ReadingStopped if there is no such file."""
        paths = {path for piece in self.pieces for path in (piece.path, piece.companion) if path}
        try:
            states = {path: path.stat() for path in paths}
        except OSError as error:
            raise read_error(Path(error.filename), error, ReadingStopped) from error
        content = [
            _FORMAT,
            self.corpus,
            asdict(self.settings),
            [[*vars(piece).values(), piece.path.absolute()] for piece in self.pieces],
            sorted((path, state.st_size, state.st_mtime_ns) for path, state in states.items()),
        ]
        return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()[:24]


class Damage(NamedTuple):
    """A damaged record that was skipped."""

    text: str  # where it is, and what is wrong with it
    incomplete: bool  # whether it is the rest of a file


@dataclass
class PieceReport:
    """The counts of a piece, or of a file."""

    file: int  # index of the file among the inputs
    records: int = 0  # lines, comments or subtitle files
    lines: int = 0  # of subtitle files: sentences
    unpacked_bytes: int = 0  # decompressed; of subtitles and comments, which are distributed in compressed files
    damaged: int = 0  # damaged records
    incomplete: bool = False  # whether the rest of the piece could not be read
    rows: int = 0  # in the shard
    conversations: int = 0  # in the shard
    letters: dict[str, int] = field(default_factory=dict)  # in the first raw texts, by "source" and "target"
    kept_letters: dict[str, int] = field(default_factory=dict)  # left of them by the tokenizer
    marks: dict[str, list[str]] = field(default_factory=dict)  # words that lose some: see english.words_with_marks
    removed_words: int = 0  # by tokenizers that clean
    removed_characters: int = 0  # by others
    replaced: int = 0  # characters that a line of a corpus file cannot hold
    single_conversation: bool = False  # whether the file has no markers between conversations
    people: dict[str, int] = field(default_factory=dict)  # of chats: the number of messages of each
    chats: dict[str, int] = field(default_factory=dict)  # the same of each, in exports of several
    left_out: dict[str, int] = field(default_factory=dict)  # the number of units (see RawCorpus) by reason
    examples: dict[str, list[str]] = field(default_factory=dict)  # the start of a few of those, by reason

    def add(self, other: PieceReport) -> None:
        """Add the counts of another piece of the same file; what is true of a piece is true of its file."""
        for name, value in vars(other).items():
            own = getattr(self, name)
            if name in ("examples", "marks"):
                for key, texts in value.items():
                    own[key] = list(dict.fromkeys([*own.get(key, []), *texts]))[:MAX_EXAMPLES]
            elif isinstance(value, dict):
                setattr(self, name, {key: own.get(key, 0) + value.get(key, 0) for key in {**own, **value}})
            elif name != "file":
                setattr(self, name, type(value)(own + value))


@dataclass
class TaskReport:
    """The report of a task: the key of its shard, its pieces, and the first damages and all incomplete pieces.

    It is saved beside the folder of the shard, with the checksums of the files there.
    """

    key: str = ""
    pieces: list[PieceReport] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)

    def save(self, path: Path) -> None:
        files = {file.name: file_checksum(file) for file in path.with_suffix("").iterdir()}
        write_atomically(path, json.dumps({**asdict(self), "files": files}))

    @classmethod
    def load(cls, path: Path) -> TaskReport | None:
        """The report of a finished task, or None if there is none, or it or its shard is damaged."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if any(file_checksum(path.with_suffix("") / name) != crc32 for name, crc32 in content["files"].items()):
                return None
            pieces = [PieceReport(**piece) for piece in content["pieces"]]
            return cls(content["key"], pieces, [Damage(*damage) for damage in content["damages"]])
        except (OSError, ValueError, TypeError, KeyError):
            return None


class Shard:
    """Writes the rows of a task, piece by piece, and its ``report``; ``piece`` is the report of the current piece.

    Readers call ``add_bytes`` with the number of bytes read since the last call.
    """

    def __init__(self, folder: Path, schema: pa.Schema, add_bytes: Callable[[int], object]) -> None:
        self.report = TaskReport()
        self.piece = PieceReport(0)
        self._name = ""
        self._schema, self.add_bytes = schema, add_bytes
        self._writer = pq.ParquetWriter(folder / "rows.parquet", schema, compression="zstd", compression_level=1)
        self._batches: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._fingerprints: list[tuple[int, bool, int]] = []
        self._folder = folder

    def start_piece(self, piece: Piece) -> None:
        """Attribute all further rows and damage to this piece."""
        self._name = str(piece)
        self.piece = PieceReport(piece.file)
        self.report.pieces.append(self.piece)

    def add_rows(self, **columns: Any) -> None:
        """Add rows: for each column an Arrow array, a sequence, or one number for all rows.

        Columns that the schema does not have are ignored.
        """
        rows = len(columns["text"])
        if not rows:
            return
        arrays = [_array(columns[name], self._schema.field(name).type, rows) for name in self._schema.names]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._pending_rows += rows
        self.piece.rows += rows
        if self._pending_rows >= _ROWS_PER_GROUP:
            self._flush()

    def add_fingerprints(self, exact: bool, fingerprints: Sequence[int]) -> None:
        """Add fingerprints of the current file."""
        self._fingerprints += [(self.piece.file, exact, fingerprint) for fingerprint in fingerprints]

    def add_letters(self, raw: Sequence[str], cleaned: Sequence[str], *, target: bool = False) -> None:
        """Count the letters in the first utterances or targets of a piece, and how many of them the tokenizer keeps."""
        side = "target" if target else "source"
        if not self.piece.letters.get(side):
            counts = Letters.from_texts(raw[:SAMPLE_UTTERANCES], cleaned[:SAMPLE_UTTERANCES])
            self.piece.letters[side], self.piece.kept_letters[side] = counts

    def leave_out(self, reason: str, count: int = 1, examples: Iterable[str] = ()) -> None:
        """Count what is left out for a reason, with a few of these texts as examples."""
        if not count:
            return
        self.piece.left_out[reason] = self.piece.left_out.get(reason, 0) + count
        shown = self.piece.examples.setdefault(reason, [])
        for text in islice(examples, 4 * MAX_EXAMPLES) if len(shown) < MAX_EXAMPLES else ():
            start = text.strip()[:MAX_EXAMPLE_LENGTH]
            shown.append(start if start.isprintable() else repr(start)[1:-1])
        self.piece.examples[reason] = list(dict.fromkeys(shown))[:MAX_EXAMPLES]

    def add_damage(self, position: str, reason: str, *, incomplete: bool = False) -> None:
        """Record that a record, or with ``incomplete`` the rest of the piece, was skipped."""
        self.piece.damaged += 1
        self.piece.incomplete |= incomplete
        if incomplete or len(self.report.damages) < MAX_DAMAGES:
            place = f"{self._name}, {position}" if position else self._name
            self.report.damages.append(Damage(f"{place}: {reason}", incomplete))

    def close(self) -> None:
        """Write pending rows and close the file."""
        self._flush()
        self._writer.close()
        file, exact, fingerprint = np.array(self._fingerprints, np.int64).reshape(-1, 3).T
        arrays = [integers(file, np.int32), booleans(exact.astype(bool)), integers(fingerprint)]
        pq.write_table(pa.Table.from_arrays(arrays, schema=FINGERPRINTS), self._folder / "fingerprints.parquet")

    def discard(self) -> None:
        """Close the file without writing pending rows."""
        self._writer.close()

    def _flush(self) -> None:
        if self._pending_rows:
            self._writer.write_table(pa.Table.from_batches(self._batches), row_group_size=_ROWS_PER_GROUP)
        self._batches, self._pending_rows = [], 0


def _array(values: Any, kind: pa.DataType, rows: int) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if hasattr(values, "__len__"):
        return pa.array(values, kind)
    return integers(np.full(rows, values), np.int32 if kind == pa.int32() else np.int64)


# NumPy arrays and bytes become Arrow arrays by buffer. pyarrow's own conversions examine each value, and import pandas
# to recognize its objects, which takes half a second in each process.


def strings(values: Sequence[bytes]) -> pa.StringArray:
    """A string array of UTF-8 values."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=offsets[1:])
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(b"".join(values)))


def lines(block: bytes) -> pa.StringArray:
    """A string array of the lines of a UTF-8 text without a line feed after the last."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    offsets = np.zeros(len(ends) + 2, np.int32)
    offsets[1:-1] = ends - np.arange(len(ends))  # the preceding line feeds are removed
    offsets[-1] = len(block) - len(ends)
    return pa.StringArray.from_buffers(len(ends) + 1, pa.py_buffer(offsets), pa.py_buffer(block.translate(None, b"\n")))


def integers(values: Any, kind: type[np.integer[Any]] = np.int64) -> pa.Array:
    """An integer array."""
    data = pa.py_buffer(np.ascontiguousarray(values, kind))
    return pa.Array.from_buffers(pa.from_numpy_dtype(kind), len(values), [None, data])


def booleans(values: Any) -> pa.Array:
    """A boolean array."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


def floats(values: Any) -> pa.Array:
    """A float64 array in which NaN becomes null."""
    known = ~np.isnan(values)
    bits = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values, np.float64))
    return pa.Array.from_buffers(pa.float64(), len(values), [bits, data])


def to_numpy(column: pa.Array, kind: type[np.integer[Any]] = np.int64) -> Any:
    """An integer array without nulls as a NumPy array that shares its memory."""
    if column.null_count or column.type != pa.from_numpy_dtype(kind):
        raise TypeError(f"{column.type} with {column.null_count} nulls cannot be converted to {kind.__name__}")
    return np.frombuffer(column.buffers()[1], kind)[column.offset :][: len(column)]
