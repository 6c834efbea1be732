"""The files of chat exports: plain, compressed, in folders or in ZIP archives."""

from __future__ import annotations

import codecs
import csv
import io
import logging
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import ijson

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.readers import archive_members, open_archive, single_file
from seq2seq_chat.prepare.readers.chats.dates import DateOrder
from seq2seq_chat.prepare.readers.chats.formats import ChatFormat, Message, chat_formats, find_format
from seq2seq_chat.prepare.readers.inputs import find_encoding, open_piece, read_start_of, read_text_start, safe_members
from seq2seq_chat.prepare.shards import Piece
from seq2seq_chat.system.compressed import DamagedFile

logger = logging.getLogger(__name__)

SUFFIXES = r"\.(txt|json|jsonl|csv|xml|srt|vtt)"
"""The end of the names of files that may be chats, as a regular expression."""

_SHOWN_LINES = 3


@dataclass
class Export:
    """The files of one chat, and what is left out of them."""

    name: str  # identifies it in messages
    pieces: Sequence[Piece]  # one for each file
    date_order: DateOrder | None = None  # if the user gave one
    on_progress: Callable[[int], object] = lambda size: None  # called with numbers of bytes
    left_out: Counter[str] = field(default_factory=Counter)  # messages by reason

    def messages(self, chat_format: ChatFormat) -> Iterator[Message]:
        """Yield the messages; those that are left out are counted. Raises DamagedFile, OSError, CorpusError."""
        try:
            for message in chat_format.read(self):
                if isinstance(message, str):
                    self.left_out[message] += 1
                else:
                    yield message
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise DamagedFile(f"a message is not as {chat_format.name} writes it ({error!r})") from error

    def start(self) -> str:
        """The text at the start of the first file. Raises DamagedFile, OSError."""
        return read_text_start(self.pieces[0])

    def lines(self, *, progress: bool = True) -> Iterator[str]:
        """Yield the lines of all files without their ends. Raises DamagedFile, OSError.

        Args:
            progress: Set to False if the lines will be read again.
        """
        for piece in self.pieces:
            with open_piece(piece, self.on_progress if progress else lambda size: None) as file:
                encoding = find_encoding(read_start_of(piece))
                errors = "replace" if encoding == "utf-16" else "surrogateescape"
                for line in io.TextIOWrapper(file, encoding, errors):
                    yield line.removesuffix("\n")

    def rows(self, *, progress: bool = True) -> Iterator[dict[str, str]]:
        """Yield the rows of CSV files by the names of their columns, see ``lines``."""
        csv.field_size_limit(1 << 30)
        delimiter = max(",;", key=self.start().partition("\n")[0].count)
        lines = (f"{line}\n" for line in self.lines(progress=progress))
        return csv.DictReader(lines, restval="", delimiter=delimiter)

    def json_values(self, piece: Piece, *prefixes: str) -> Iterator[tuple[str, Any]]:
        """Yield (prefix, value) of the values at some ``prefixes``, as ijson names them, in the order of the file.

        Raises:
            DamagedFile: The file ends early, or is not JSON.
            OSError: The file cannot be opened.
        """
        with open_piece(piece, self.on_progress) as file:
            if file.peek(3).startswith(codecs.BOM_UTF8):
                file.read(3)
            try:
                events = ijson.parse(file, use_float=True)
                for prefix, event, scalar in events:
                    if prefix not in prefixes:
                        continue
                    if event in ("start_map", "start_array"):
                        builder, end = ijson.ObjectBuilder(), f"end_{event[6:]}"
                        builder.event(event, scalar)
                        for inner, name, value in events:
                            builder.event(name, value)
                            if name == end and inner == prefix:
                                break
                        yield prefix, builder.value
                    elif event != "end_map":
                        yield prefix, scalar
            except ijson.JSONError as error:
                raise DamagedFile(f"the JSON is damaged or ends early: {str(error).splitlines()[0]}") from error

    def sibling(self, name: str) -> Export | None:
        """A file beside the folder of this chat, if there is one."""
        piece = self.pieces[0]
        if piece.member is None:
            path = piece.path.parent.parent / name
            return replace(self, pieces=[Piece(path, 0)]) if path.is_file() else None
        member = str(PurePosixPath(piece.member).parent.parent / name)
        known = member in open_archive(piece.path).namelist()
        return replace(self, pieces=[replace(piece, member=member)]) if known else None


def expand_archive(path: Path) -> list[Piece]:
    """The members of a ZIP archive that may be chats, or the file itself.

    Raises:
        CorpusError: The archive has no such members, or is a decompression bomb.
        OSError: The file cannot be read.
    """
    if not zipfile.is_zipfile(path):
        return single_file(path)
    members = safe_members(path)
    pieces = archive_members(path, rf"(?is)(?!.*__MACOSX)(.*/)?(?!\.)[^/]*{SUFFIXES}")
    if not pieces:
        nested = any(info.filename.endswith((".zip", ".tar", ".gz", ".rar", ".7z")) for info in members)
        remedy = "Unpack it and name the archives in it." if nested else "Export the chats as text or JSON."
        raise CorpusError(f"{path} contains no chats. {remedy}")
    return pieces


def choose_chats(paths: list[Path]) -> list[Path]:
    """The archives and the files that are chats, or all of them if none is."""
    chats = [path for path in paths if zipfile.is_zipfile(path) or _format_of(Piece(path, 0)) is not None]
    if chats and len(chats) < len(paths):
        logger.warning("skipped %s files that are not chats", f"{len(paths) - len(chats):,}")
    return chats or paths


def combine_exports(_: object, pieces: list[Piece]) -> list[Piece]:
    """One piece for each chat: where a format divides a chat, the folder with its parts.

    Raises:
        CorpusError: A file, or everything in an archive, is no chat.
        OSError: A file cannot be read.
    """
    exports: dict[tuple[Path, str | None], list[Piece]] = {}
    unknown: dict[Path, Piece] = {}
    for piece in pieces:
        chat_format = _format_of(piece)
        if chat_format is None:
            unknown.setdefault(piece.path, piece)
        elif chat_format.in_folders:
            member = None if piece.member is None else f"{PurePosixPath(piece.member).parent}/"
            exports.setdefault((piece.path if member else piece.path.parent, member), []).append(piece)
        else:
            exports[piece.path, piece.member] = [piece]
    for path, piece in unknown.items():
        if piece.member is None or not any(path == known for known, _ in exports):
            raise CorpusError(_explain_unknown(piece))
    return [
        parts[0] if len(parts) == 1 else Piece(path, sum(part.size for part in parts), member)
        for (path, member), parts in exports.items()
    ]


def parts_of(piece: Piece) -> list[Piece]:
    """The files of a piece of ``combine_exports``. Raises DamagedFile, OSError."""
    if piece.member is None and piece.path.is_dir():
        return [replace(piece, path=path) for path in sorted(piece.path.glob("*.json"))]
    if piece.member is not None and piece.member.endswith("/"):
        return archive_members(piece.path, rf"(?s){re.escape(piece.member)}[^/]*\.json")
    return [piece]


def _format_of(piece: Piece) -> ChatFormat | None:
    try:
        return find_format(read_text_start(piece))
    except DamagedFile:
        return None


def _explain_unknown(piece: Piece) -> str:
    lines = [line[:100] for line in read_text_start(piece).splitlines() if line.strip()][:_SHOWN_LINES]
    if not lines:
        return f"{piece} is empty."
    names = ", ".join(dict.fromkeys(chat_format.name for chat_format in chat_formats()))
    shown = " | ".join(lines)
    control = len(re.findall("[\x00-\x1f\x7f-\x9f\ufffd]", shown))
    if re.match(r"(?i)<(!doctype )?html", shown):
        return f"{piece} is an HTML page. Export the chat as text or JSON."
    begin = "It is not text." if control > len(shown) / 20 else f"It begins with: {shown}"
    return f"{piece} is not a chat that `prepare chats` can read ({names}). {begin}"
