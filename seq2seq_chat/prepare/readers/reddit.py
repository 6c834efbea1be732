"""Reddit: monthly dumps of comments, one JSON object per line.

The ``parent_id`` of a comment is the full name (``t1_`` and the id) of the comment it replies to, or that of the
submission, which is also its ``link_id``. Early dumps have no ``name`` field, only the bare ``id``. Dumps are large and
usually few of their comments are needed: a line is parsed only if it contains the name of a selected subreddit, or an
escape that might hide one. Line ends and names are found with vector instructions, in blocks that fit into the
processor's cache.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ahocorasick_rs
import numpy as np
import orjson
import pyarrow as pa

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.arrow import floats, integers, strings
from seq2seq_chat.prepare.readers import COMPRESSED, RawCorpus
from seq2seq_chat.prepare.shards import BLANK, COMMENTS, OTHER_SUBREDDITS, Piece, PieceReport, ReaderSettings, Shard
from seq2seq_chat.prepare.tokenizing import tokenize
from seq2seq_chat.system.compressed import DamagedFile, LineBlocks, read_start

MAX_FILE_BYTES = 1 << 44
"""The ordinal of a comment is the number of its file times this, plus the offset of its line."""

# A character of a name may be written as an escape, \u0020 to \u007f. Searching for escapes separately from the names
# is many times faster than searching for both together.
_ESCAPES = ahocorasick_rs.BytesAhoCorasick([b"\\u00%d" % high for high in range(2, 8)])
_YEAR = re.compile(r"RC_(\d{4})-")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_MAX_SEPARATE_SEARCHES = 16  # more names are searched for together, which does not use vector instructions
_BATCH_COMMENTS = 4096
_LINE_FEED, _OPENING, _CLOSING = b"\n{}"
_DELETED = frozenset(("[deleted]", "[removed]"))
_ENTITIES = (("&gt;", ">"), ("&lt;", "<"), ("&amp;", "&"))  # the escapes in bodies; & must be the last
_COMMENT_PREFIX = "t1_"
_START_BYTES = 1 << 20  # of a dump, to name subreddits in it


@dataclass(frozen=True)
class RedditSettings(ReaderSettings):
    """The options of this reader."""

    subreddits: tuple[str, ...] = ()  # the subreddits to read; empty: all
    max_words: int | None = None  # skip comments of more words, which white space separates in the raw comment
    min_score: int | None = None  # skip comments with a lower score


def read_reddit(piece: Piece, settings: RedditSettings, shard: Shard) -> None:
    """Read the comments of a dump, or of a byte range of one, into a shard of COMMENTS.

    Skips comments of other subreddits, deleted and removed comments, those that have no words or too many, and those
    with too low a score. Lines that are not UTF-8, not a JSON object or not a comment are damage. (Lines that do not
    mention a selected subreddit are only checked for UTF-8 and braces.)

    Raises:
        OSError: The file cannot be opened.
    """
    comments = _CommentReader(piece, settings, shard)
    offset = piece.start
    try:
        for begin, block in LineBlocks(piece.path, piece.start, piece.end, shard.add_bytes):
            comments.read(begin, block)
            offset = begin + len(block)
    except DamagedFile as error:
        shard.add_damage(f"after byte {offset} and {shard.piece.records} lines", str(error), incomplete=True)
    comments.flush()
    report = shard.piece
    others = report.records - (report.damaged - report.incomplete) - report.rows - sum(report.left_out.values())
    shard.leave_out(OTHER_SUBREDDITS, others)


def files_of_years(files: Sequence[Piece], years: Collection[int]) -> list[Piece]:
    """The dumps of some years, by their names. Raises CorpusError if there is none of a year."""
    found = [(file, int(match[1])) for file in files if (match := _YEAR.match(file.path.name))]
    if missing := sorted(set(years) - {year for _, year in found}):
        others = ", ".join(map(str, sorted({year for _, year in found}))) or "none"
        raise CorpusError(
            f"There is no dump of {', '.join(map(str, missing))} in the inputs. Choose --year among those in the names "
            f"of the files, RC_YEAR-MONTH: {others}."
        )
    return [file for file, year in found if year in years]


class _Comment(NamedTuple):
    """A selected comment with its raw body."""

    ordinal: int
    link: str
    name: str
    parent: str
    body: str
    created: float | None


class _CommentReader:
    """Reads the comments in blocks of lines of one piece."""

    def __init__(self, piece: Piece, settings: RedditSettings, shard: Shard) -> None:
        self._shard = shard
        self._settings = settings
        self._first_ordinal = piece.file * MAX_FILE_BYTES
        self._subreddits = frozenset(settings.subreddits)
        names = [f'"{name}"'.encode() for name in settings.subreddits]
        groups = [[name] for name in names] if len(names) <= _MAX_SEPARATE_SEARCHES else [names]
        if not all(_NAME.fullmatch(name) for name in settings.subreddits):
            groups = []  # such a name has several JSON encodings; parse every line
        self._searches = [ahocorasick_rs.BytesAhoCorasick(group) for group in groups]
        self._pending: list[_Comment] = []

    def read(self, offset: int, block: memoryview) -> None:
        """Read a block of complete lines, which starts at ``offset`` in the file."""
        self._shard.piece.unpacked_bytes += len(block)
        ends = _ends_of_objects(block)
        if ends is not None and _is_utf8(block):
            self._shard.piece.records += len(ends)
            self._parse(self._mentioning(offset, block, ends))
        else:
            self._parse(self._undamaged(offset, block))
        if len(self._pending) >= _BATCH_COMMENTS:
            self.flush()

    def _mentioning(self, offset: int, block: memoryview, ends: Any) -> Iterator[tuple[int, memoryview]]:
        """The lines that may belong to a selected subreddit, with their offsets in the file; lines end at ``ends``."""
        lines: Any = range(len(ends))
        if self._searches:
            searches = (*self._searches, _ESCAPES)
            hits = [hit for search in searches for _, hit, _ in search.find_matches_as_indexes(block)]
            lines = np.unique(np.searchsorted(ends, hits)).tolist() if hits else ()
        for line in lines:
            start = int(ends[line - 1]) + 1 if line else 0
            yield offset + start, block[start : ends[line]]

    def _undamaged(self, offset: int, block: memoryview) -> Iterator[tuple[int, memoryview]]:
        """The same for a block with damaged or empty lines; damage is reported."""
        for start, line in _lines(offset, bytes(block)):
            stripped = line.strip()
            if not stripped:
                continue
            self._shard.piece.records += 1
            if not (stripped.startswith(b"{") and stripped.endswith(b"}")):
                self._add_damage(start, "not a JSON object on one line")
            elif not _is_utf8(line):
                self._add_damage(start, "not UTF-8")
            else:
                yield from self._mentioning(start, memoryview(line), np.array([len(line)]))

    def _add_damage(self, offset: int, reason: str) -> None:
        self._shard.add_damage(f"byte {offset}", reason)

    def _parse(self, lines: Iterable[tuple[int, memoryview]]) -> None:
        """Collect the selected comments of the lines."""
        subreddits, min_score, max_words = self._subreddits, self._settings.min_score, self._settings.max_words
        leave_out = self._shard.leave_out
        for offset, line in lines:
            comment = _parse_object(line)
            if comment is None:
                self._add_damage(offset, "invalid JSON")
                continue
            try:
                if subreddits and comment["subreddit"] not in subreddits:
                    continue
                body, link = comment["body"], comment["link_id"]
                name = comment.get("name") or _COMMENT_PREFIX + comment["id"]
                parent = comment["parent_id"] or link
                if type(body) is not str or not (link.isascii() and name.isascii() and parent.isascii()):
                    raise TypeError
                if min_score is not None and (comment.get("score") or 0) < min_score:
                    leave_out("below --min-score")
                    continue
                created = _parse_time(comment.get("created_utc"))
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
                self._add_damage(offset, "not a comment: a field is missing or has the wrong type")
                continue
            if body in _DELETED:
                leave_out("deleted or removed")
                continue
            if max_words is not None and len(body.split()) > max_words:
                leave_out("more than --max-words")
                continue
            if "&" in body:
                for entity, character in _ENTITIES:
                    body = body.replace(entity, character)
            self._pending.append(_Comment(self._first_ordinal + offset, link, name, parent, body, created))

    def flush(self) -> None:
        """Tokenize the collected comments and add them to the shard."""
        if not self._pending:
            return
        bodies = [comment.body for comment in self._pending]
        texts = tokenize(bodies, self._settings.tokenizer, self._shard)
        kept = texts.kept()
        self._shard.leave_out(BLANK, sum(not body.strip() for body in bodies))
        comments = [self._pending[index] for index in kept]
        self._pending = []
        if comments:
            self._shard.add_rows(
                ordinal=integers([comment.ordinal for comment in comments]),
                link=strings([comment.link.encode() for comment in comments]),
                id=strings([comment.name.encode() for comment in comments]),
                parent=strings([comment.parent.encode() for comment in comments]),
                **texts.columns(kept),
                created=floats(np.array([comment.created for comment in comments], np.float64)),
            )


def _ends_of_objects(block: memoryview) -> Any:
    """The ends of the lines if each line is in braces, otherwise None."""
    codes = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(codes == _LINE_FEED)
    if not len(ends) or ends[-1] != len(block) - 1 or ends[0] == 0 or codes[0] != _OPENING:
        return None
    braced = (codes[ends - 1] == _CLOSING).all() and (codes[ends[:-1] + 1] == _OPENING).all()
    return ends if braced else None


def _lines(offset: int, block: bytes) -> Iterator[tuple[int, bytes]]:
    for line in block.split(b"\n"):
        if line:
            yield offset, line
        offset += len(line) + 1


def _parse_object(line: memoryview) -> dict[str, Any] | None:
    """The JSON object on a line, or None if it is invalid."""
    try:
        comment = orjson.loads(line)
    except ValueError:
        try:
            # The standard library accepts lone surrogates, which comments with truncated emojis contain.
            comment = json.loads(bytes(line))
        except (ValueError, RecursionError):
            return None
    return comment if isinstance(comment, dict) else None


def _parse_time(created: Any) -> float | None:
    """The time in seconds; some dumps write it as a string. Raises ValueError, TypeError, OverflowError."""
    seconds = None if created is None else float(created)
    return seconds if seconds is None or math.isfinite(seconds) else None


def _is_utf8(data: bytes | memoryview) -> bool:
    if np.frombuffer(data, np.uint8).max() < 128:
        return True
    text = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, len(data)], np.int32)), pa.py_buffer(data))
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def check_subreddits(settings: ReaderSettings, report: PieceReport, files: Sequence[Piece]) -> None:
    """Raise CorpusError if there are no comments in the selected subreddits."""
    if not isinstance(settings, RedditSettings) or not settings.subreddits or report.rows or not report.records:
        return
    if report.left_out.get(OTHER_SUBREDDITS, 0) + report.damaged < report.records:
        return
    lines = [line for file in files[:1] for line in read_start(file.path, _START_BYTES).splitlines()]
    found = Counter((_parse_object(memoryview(line)) or {}).get("subreddit") for line in lines if line)
    names = ", ".join(f"{name}: {count:,}" for name, count in found.most_common(6) if name)
    raise CorpusError(
        f"0 of {report.records:,} comments are in subreddit {' or '.join(settings.subreddits)}. "
        f"At the start of {files[0].path}, there is {names or 'none'}."
    )


CORPUS = RawCorpus(
    read_reddit,
    COMMENTS,
    rf"(RC_[^.]*|.*\.(json|jsonl|ndjson)){COMPRESSED}",
    "RC_… or .json (.gz, .bz2, .xz, .zst)",
    settings=RedditSettings,
    unit="comments",
    threads="submissions",
    divisible=True,
    check=check_subreddits,
)
