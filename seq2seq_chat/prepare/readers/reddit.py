"""Reddit: monthly dumps of comments, a JSON object a line.

A comment's ``parent_id`` is the full name (``t1_`` and its id) of the comment that it answers, or that
of the submission itself, its ``link_id``. Early dumps have no ``name`` field, only the bare ``id``.
Dumps are large, and of the comments in them few are wanted: a line is parsed only if it holds the
name of a wanted subreddit, or an escape by which it might. The ends of the lines and the names are found
by vector instructions, in blocks that fit into a processor's cache.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ahocorasick_rs
import numpy as np
import orjson
import pyarrow as pa

from seq2seq_chat.corpus.columns import floats, integers, strings
from seq2seq_chat.corpus.compressed import BrokenStream, LineBlocks
from seq2seq_chat.corpus.shards import Piece, ReadingSettings, Shard
from seq2seq_chat.corpus.text import clean_lines

PLACES_PER_FILE = 1 << 44
"""Comments are placed by their file and the offset of their line in it, which is less than this."""

# A letter, digit or underscore of a name may be written as an escape, \u0020 to \u007f. They are looked for apart
# from the names, which is many times faster than both together.
_ESCAPES = ahocorasick_rs.BytesAhoCorasick([b"\\u00%d" % high for high in range(2, 8)])
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_FEW_NAMES = 16  # up to so many, one search for each is faster than one for all, which has no vector instructions
_HELD_ROWS = 4096
_LINE_FEED, _OPENING, _CLOSING = b"\n{}"
_GONE = frozenset(("[deleted]", "[removed]"))
_ENTITIES = (("&gt;", ">"), ("&lt;", "<"), ("&amp;", "&"))  # what dumps escape in bodies; & must be the last
_COMMENT_PREFIX = "t1_"


def read_reddit(piece: Piece, settings: ReadingSettings, shard: Shard) -> None:
    """Read the comments of a dump, or of a range of one, into a shard of COMMENTS.

    Left out are comments of other subreddits, deleted and removed ones, those of which cleaning
    leaves nothing or too many words, and those with too low a score. Damaged are lines that are
    not UTF-8, not an object of JSON, or no comment. (Inside of lines that do not mention a wanted
    subreddit, only the first two are noticed.)

    Raises:
        OSError: The file cannot be opened.
    """
    comments = _Comments(piece, settings, shard)
    blocks = LineBlocks(Path(piece.path), piece.start, piece.end, shard.read)
    offset = piece.start
    try:
        for begin, block in blocks:
            comments.read(begin, block)
            offset = begin + len(block)
    except BrokenStream as fault:
        shard.damage(f"after byte {offset} and {shard.piece.records} lines", str(fault), incomplete=True)
    comments.flush()
    for start in blocks.too_long:
        shard.piece.records += 1
        shard.damage(f"byte {start}", "a line without end")


class _Row(NamedTuple):
    """A comment that is wanted, its body as written."""

    place: int
    link: str
    name: str
    parent: str
    body: str
    time: float | None


class _Comments:
    """Reads blocks of lines of one piece."""

    def __init__(self, piece: Piece, settings: ReadingSettings, shard: Shard) -> None:
        self._shard = shard
        self._settings = settings
        self._first = piece.file * PLACES_PER_FILE
        self._wanted = frozenset(settings.subreddits)
        names = [f'"{name}"'.encode() for name in settings.subreddits]
        groups = [[name] for name in names] if len(names) <= _FEW_NAMES else [names]
        if not all(_NAME.fullmatch(name) for name in settings.subreddits):
            groups = []  # such a name can be written in other ways; every line is parsed
        self._searches = [ahocorasick_rs.BytesAhoCorasick(group) for group in groups]
        self._held: list[_Row] = []

    def read(self, offset: int, block: memoryview) -> None:
        """Read a block of whole lines, the first at ``offset`` of the file."""
        ends = _ends_of_objects(block)
        if ends is not None and _is_utf8(block):
            self._shard.piece.records += len(ends)
            self._parse(self._mentioning(offset, block, ends))
        else:
            self._parse(self._sound(offset, block))
        if len(self._held) >= _HELD_ROWS:
            self.flush()

    def _mentioning(self, offset: int, block: memoryview, ends: Any) -> Iterator[tuple[int, memoryview]]:
        """The lines, which end at ``ends``, that may be of a wanted subreddit, with their offsets in the file."""
        lines: Any = range(len(ends))
        if self._searches:
            searches = (*self._searches, _ESCAPES)
            hits = [hit for search in searches for _, hit, _ in search.find_matches_as_indexes(block)]
            lines = np.unique(np.searchsorted(ends, hits)).tolist() if hits else ()
        for line in lines:
            start = int(ends[line - 1]) + 1 if line else 0
            yield offset + start, block[start : ends[line]]

    def _sound(self, offset: int, block: memoryview) -> Iterator[tuple[int, memoryview]]:
        """The same of a block that has damaged or empty lines, which are counted."""
        for start, line in _lines(offset, bytes(block)):
            stripped = line.strip()
            if not stripped:
                continue
            self._shard.piece.records += 1
            if not (stripped.startswith(b"{") and stripped.endswith(b"}")):
                self._bad(start, "not a JSON object on a line of its own")
            elif not _is_utf8(line):
                self._bad(start, "not UTF-8")
            else:
                yield from self._mentioning(start, memoryview(line), np.array([len(line)]))

    def _bad(self, offset: int, reason: str) -> None:
        self._shard.damage(f"byte {offset}", reason)

    def _parse(self, lines: Iterable[tuple[int, memoryview]]) -> None:
        """Hold the comments among the lines, to be added to the shard."""
        wanted, min_score = self._wanted, self._settings.min_score
        for offset, line in lines:
            comment = _parsed(line)
            if comment is None:
                self._bad(offset, "no sound JSON")
                continue
            try:
                if wanted and comment["subreddit"] not in wanted:
                    continue
                body, link = comment["body"], comment["link_id"]
                name = comment.get("name") or _COMMENT_PREFIX + comment["id"]
                parent = comment["parent_id"] or link
                if type(body) is not str or not (link.isascii() and name.isascii() and parent.isascii()):
                    raise TypeError
                if min_score is not None and (comment.get("score") or 0) < min_score:
                    continue
                time = _seconds(comment.get("created_utc"))
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
                self._bad(offset, "no comment: a field is missing or of the wrong type")
                continue
            if body in _GONE:
                continue
            if "&" in body:
                for entity, character in _ENTITIES:
                    body = body.replace(entity, character)
            self._held.append(_Row(self._first + offset, link, name, parent, body, time))

    def flush(self) -> None:
        """Add what is held to the shard."""
        if not self._held:
            return
        texts = clean_lines([row.body for row in self._held])
        most = self._settings.max_words
        kept = [number for number, text in enumerate(texts) if text and (most is None or text.count(" ") < most)]
        rows = [self._held[number] for number in kept]
        self._held = []
        if rows:
            self._shard.add(
                place=integers([row.place for row in rows]),
                link=strings([row.link.encode() for row in rows]),
                id=strings([row.name.encode() for row in rows]),
                parent=strings([row.parent.encode() for row in rows]),
                text=strings([texts[number].encode() for number in kept]),
                created=floats(np.array([row.time for row in rows], np.float64)),
            )


def _ends_of_objects(block: memoryview) -> Any:
    """Where the lines end, as an array, if each of them is in braces; else None."""
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


def _parsed(line: memoryview) -> dict[str, Any] | None:
    """The object on a line, or None if it is not sound."""
    try:
        comment = orjson.loads(line)
    except ValueError:
        try:
            # The standard library takes halves of surrogate pairs, as comments with cut emojis have them.
            comment = json.loads(bytes(line))
        except (ValueError, RecursionError):
            return None
    return comment if isinstance(comment, dict) else None


def _seconds(created: Any) -> float | None:
    """Some dumps write the time as a text. Raises ValueError, TypeError, OverflowError."""
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
