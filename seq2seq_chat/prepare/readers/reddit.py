"""Reddit: monthly dumps of comments, one JSON object per line.

The ``parent_id`` of a comment is the full name (``t1_`` and the id) of the comment it replies to, or that of the
submission, which is also its ``link_id``; the API of Pushshift wrote numbers. Early dumps have no ``name`` field, only
the bare ``id``. Dumps are large and usually few of their comments are needed: a line is parsed only if it contains the
name of a selected subreddit, in any case, or an escape that might hide one. Line ends and names are found with vector
instructions, in blocks that fit into the processor's cache.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ahocorasick_rs
import numpy as np
import orjson
import pyarrow as pa

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.readers import COMPRESSED, RawCorpus
from seq2seq_chat.prepare.shards import (
    BLANK,
    COMMENTS,
    OTHER_SUBREDDITS,
    SUBMISSIONS,
    Piece,
    PieceReport,
    ReaderSettings,
    Shard,
    floats,
    integers,
    strings,
)
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
_DELETED = re.compile(
    r"\[\s*(?:deleted|removed|unavailable)(?:\s+(?:by|on account of|for|due to)\b.*)?\s*\]", re.IGNORECASE | re.DOTALL
)
_BOT = re.compile("AutoModerator|autotldr|TotesMessenger|.*(?:[-_]bot|Bot|BOT)")
_BOT_ENDS = frozenset(("tor", "ldr", "ger", "bot", "Bot", "BOT"))  # of their names
# "^" makes letters small.
_BOT_SAYS = re.compile(r"\bI(?: a|['’])m an? (?:\w+ )?bot\b|this action was performed automatically", re.IGNORECASE)
_QUOTE = re.compile(r"^[ \t]*>(?!!).*\n?", re.MULTILINE)  # >! is a spoiler
_EDIT = re.compile(r"\n[ \t]*\W{0,3}edit(?:ed)?\W{0,2}\d*\W{0,2}(?::|\s[-–]).*", re.IGNORECASE | re.DOTALL)
_CHARACTERS = re.compile(r"&(?:#\d+|#x[\da-f]+|nbsp);", re.IGNORECASE)
_INVISIBLE = re.compile("[\u200b\u2060\ufeff]+")
_ENTITIES = (("&gt;", ">"), ("&lt;", "<"), ("&amp;", "&"))  # the escapes in bodies; & must be the last
_COMMENT_PREFIX = "t1_"
_LOWER = np.uint8(ord("a") ^ ord("A"))
_START_BYTES = 1 << 20  # of a dump, to name subreddits in it


@dataclass(frozen=True)
class RedditSettings(ReaderSettings):
    """The options of this reader."""

    subreddits: tuple[str, ...] = ()  # the subreddits to read; empty: all
    max_words: int | None = None  # skip comments of more words, which white space separates in the raw comment
    min_score: int | None = None  # skip comments with a lower score
    keep_bots: bool = False  # whether to read what programs wrote
    years: tuple[int, ...] = ()  # of the dumps that are read; empty: all


def read_reddit(piece: Piece, settings: RedditSettings, shard: Shard) -> None:
    """Read the comments of a dump, or of a byte range of one, into a shard of COMMENTS.

    Skips submissions, comments of other subreddits or by bots, deleted and removed comments, those that have no words
    or too many, and those with too low a score. Of the others, quotes and notes about edits are removed. Lines that are
    not UTF-8, not a JSON object or not a comment are damage. (Lines that do not mention a selected subreddit are only
    checked for UTF-8 and braces.)

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


def files_of_years(settings: RedditSettings, files: list[Piece]) -> list[Piece]:
    """The dumps of the years in the settings, by their names. Raises CorpusError if there is none of a year."""
    years = settings.years
    if not years:
        return files
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
        self._subreddits = frozenset(name.lower() for name in settings.subreddits)
        names = [bytes(code | int(_LOWER) for code in f'"{name}"'.encode()) for name in self._subreddits]
        groups = [[name] for name in names] if len(names) <= _MAX_SEPARATE_SEARCHES else [names]
        if not all(_NAME.fullmatch(name) for name in settings.subreddits):
            groups = []  # such a name has several JSON encodings; parse every line
        self._searches = [ahocorasick_rs.BytesAhoCorasick(group) for group in groups]
        self._folded = np.empty(0, np.uint8)  # a block in lower case
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
            # Lower case, and some marks that become others; a hit only means that the line is parsed.
            if len(self._folded) < len(block):
                self._folded = np.empty(len(block), np.uint8)
            folded = np.bitwise_or(np.frombuffer(block, np.uint8), _LOWER, out=self._folded[: len(block)]).data
            hits = [hit for search in self._searches for _, hit, _ in search.find_matches_as_indexes(folded)]
            hits += [hit for _, hit, _ in _ESCAPES.find_matches_as_indexes(block)]
            lines = np.unique(np.searchsorted(ends, hits)).tolist() if hits else ()
        for line in lines:
            start = int(ends[line - 1]) + 1 if line else 0
            yield offset + start, block[start : ends[line]]

    def _undamaged(self, offset: int, block: memoryview) -> Iterator[tuple[int, memoryview]]:
        """The same for a block with damaged or empty lines; damage is reported."""
        end = offset
        for line in bytes(block).split(b"\n"):
            start, end = end, end + len(line) + 1
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
        keep_bots, leave_out = self._settings.keep_bots, self._shard.leave_out
        add, first_ordinal = self._pending.append, self._first_ordinal
        for offset, line in lines:
            comment = _parse_object(line)
            if comment is None:
                self._add_damage(offset, "invalid JSON")
                continue
            try:
                if subreddits and not (type(name := comment["subreddit"]) is str and name.lower() in subreddits):
                    continue
                body, link = comment["body"], comment["link_id"]
                name = comment.get("name") or _COMMENT_PREFIX + _base_36(comment["id"])
                parent = comment["parent_id"] or link
                if type(parent) is not str or type(link) is not str:
                    link, parent = _full_names(link, parent)
                if type(body) is not str or not (link.isascii() and name.isascii() and parent.isascii()):
                    raise TypeError
                if min_score is not None and (comment.get("score") or 0) < min_score:
                    leave_out("below --min-score")
                    continue
                created, author = comment.get("created_utc"), comment.get("author") or ""
                if type(created) is not int or created >> 53:
                    created = _parse_time(created)
                may_be_bot = author[-3:] in _BOT_ENDS or "bot" in body
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                self._skip(offset, comment, error)
                continue
            first = body[:1]
            if first == "[" and _DELETED.fullmatch(body.strip()):
                leave_out("deleted or removed")
                continue
            if max_words is not None and len(body.split()) > max_words:
                leave_out("more than --max-words")
                continue
            if may_be_bot and not keep_bots and (_BOT.fullmatch(author) or _BOT_SAYS.search(body.replace("^", ""))):
                leave_out("by bots", examples=[body])
                continue
            if "\n" in body or "&" in body or first == ">" or not body.isascii():
                body = clean_body(body)
            add(_Comment(first_ordinal + offset, link, name, parent, body, created))

    def _skip(self, offset: int, entry: dict[str, Any], error: Exception) -> None:
        """Count a submission, or what is no comment."""
        if "title" in entry and "body" not in entry:
            self._shard.leave_out(SUBMISSIONS)
        else:
            self._add_damage(offset, f"not a comment: {_wrong_field(entry, error)}")

    def flush(self) -> None:
        """Tokenize the collected comments and add them to the shard."""
        if not self._pending:
            return
        bodies = [comment.body for comment in self._pending]
        texts = tokenize(bodies, self._settings.tokenizer, self._shard)
        kept = texts.kept()
        if len(kept) < len(bodies):
            self._shard.leave_out(BLANK, sum(not body.strip() for body in bodies))
        comments = [self._pending[index] for index in kept]
        self._pending = []
        self._shard.add_rows(
            ordinal=integers([comment.ordinal for comment in comments]),
            link=strings([comment.link.encode() for comment in comments]),
            id=strings([comment.name.encode() for comment in comments]),
            parent=strings([comment.parent.encode() for comment in comments]),
            **texts.columns(kept),
            created=floats(np.array([comment.created for comment in comments], np.float64)),
        )


def clean_body(body: str) -> str:
    """A body without escapes, zero-width characters, quotes of the parent, and notes about edits at the end."""
    if "&" in body:
        for entity, character in _ENTITIES:
            body = body.replace(entity, character)
        if "&" in body:
            body = _CHARACTERS.sub(lambda match: html.unescape(match[0]), body)
    if not body.isascii():
        body = _INVISIBLE.sub("", body).replace("\xa0", " ")
    if ">" in body:
        body = _QUOTE.sub("", body)
    return _EDIT.sub("", body) if "\n" in body else body


def _full_names(link: Any, parent: Any) -> tuple[str, str]:
    """The full names of the submission and of the parent, of which one is a number. Raises TypeError, ValueError."""
    link = link if type(link) is str else f"t3_{_base_36(link)}"
    if type(parent) is not str:
        number = _base_36(parent)
        parent = link if link == f"t3_{number}" else f"{_COMMENT_PREFIX}{number}"
    return link, parent


def _base_36(number: Any) -> str:
    """An id, which is a number to the base of 36. Raises TypeError, ValueError."""
    return number if type(number) is str else np.base_repr(number, 36).lower()


def _wrong_field(comment: dict[str, Any], error: Exception) -> str:
    """Which field is missing or has the wrong type."""
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    types = {"body": str, "link_id": str, "parent_id": str, "id": str, "subreddit": str, "score": int, "author": str}
    wrong = next((name for name, kind in types.items() if not isinstance(comment.get(name), kind)), "created_utc")
    return f"{wrong} has the wrong type"


def _ends_of_objects(block: memoryview) -> Any:
    """The ends of the lines if each line is in braces, otherwise None."""
    codes = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(codes == _LINE_FEED)
    if not len(ends) or ends[-1] != len(block) - 1 or ends[0] == 0 or codes[0] != _OPENING:
        return None
    braced = (codes[ends - 1] == _CLOSING).all() and (codes[ends[:-1] + 1] == _OPENING).all()
    return ends if braced else None


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


def check_subreddits(settings: RedditSettings, report: PieceReport, files: Sequence[Piece]) -> None:
    """Raise CorpusError if there are no comments in the selected subreddits."""
    if not settings.subreddits or report.rows or not report.records:
        return
    if report.left_out.get(OTHER_SUBREDDITS, 0) + report.damaged < report.records:
        return
    lines = [line for file in files[:1] for line in read_start(file.path, _START_BYTES).splitlines()]
    comments = (_parse_object(memoryview(line)) or {} for line in lines if line)
    found = Counter(name for comment in comments if isinstance(name := comment.get("subreddit"), str))
    names = ", ".join(f"{name}: {count:,}" for name, count in found.most_common(6))
    raise CorpusError(
        f"0 of {report.records:,} comments are in subreddit {' or '.join(settings.subreddits)}. "
        f"At the start of {files[0].path}, there is {names or 'none'}."
    )


CORPUS = RawCorpus(
    read_reddit,
    COMMENTS,
    rf"(RC_[^.]*|.*_comments|.*\.(json|jsonl|ndjson)){COMPRESSED}",
    "RC_…, …_comments or .json (.gz, .bz2, .xz, .zst)",
    settings=RedditSettings,
    unit="comments",
    threads="submissions",
    divisible=lambda path: True,
    select=files_of_years,
    check=check_subreddits,
)
