"""Input files and members of archives: their bytes, how they begin, and their lines."""

from __future__ import annotations

import codecs
import io
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.readers import ZIP_ERRORS, open_archive
from seq2seq_chat.prepare.shards import Piece
from seq2seq_chat.system.compressed import DamagedFile, LineBlocks, ReadInto, open_decompressed, read_start

START_BYTES = 1 << 16  # by which a format is recognized
_MAX_EXPANSION = 500  # an archive that grows more is an attack: text shrinks to a tenth
_MIN_SUSPICIOUS_BYTES = 1 << 20
_MARKS = (  # byte order marks
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class _Stream(io.RawIOBase):
    """A file that a function reads into buffers, like what ``open_decompressed`` returns."""

    def __init__(self, read_into: ReadInto, on_progress: Callable[[int], object]) -> None:
        self._read_into, self._on_progress = read_into, on_progress

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while (result := self._read_into(memoryview(buffer))) is not None:
            filled, consumed = result
            self._on_progress(consumed)
            if filled:
                return filled
        return 0


@contextmanager
def open_piece(
    piece: Piece, on_progress: Callable[[int], object] = lambda size: None
) -> Iterator[io.BufferedReader[Any]]:
    """Open a file or a member of an archive, decompressed. Raises DamagedFile, OSError."""
    opened = open_decompressed(piece.path) if piece.member is None else _open_member(piece.path, piece.member)
    with opened as read_into, io.BufferedReader(_Stream(read_into, on_progress), 1 << 18) as file:
        yield file


@contextmanager
def _open_member(path: Path, name: str) -> Iterator[ReadInto]:
    """The same as ``open_decompressed`` for a member of an archive; no progress is reported."""

    def read_into(buffer: memoryview) -> tuple[int, int] | None:
        with _decompressing():
            filled = member.readinto(buffer)
        return (filled, 0) if filled else None

    with _decompressing():
        member: Any = open_archive(path).open(name)
    with member:
        yield read_into


@contextmanager
def _decompressing() -> Iterator[None]:
    try:
        yield
    except ZIP_ERRORS as error:
        raise DamagedFile(f"could not be decompressed: {error}") from error


def read_start_of(piece: Piece) -> bytes:
    """The first bytes of a file, decompressed. Raises DamagedFile, OSError."""
    if piece.member is None:
        return read_start(piece.path, START_BYTES)
    with open_piece(piece) as file:
        return file.read(START_BYTES)


def read_text_start(piece: Piece) -> str:
    """The text at the start of a file. Raises DamagedFile, OSError."""
    start = read_start_of(piece)
    return start.decode(find_encoding(start), "replace").replace("\r\n", "\n").replace("\r", "\n")


def find_encoding(start: bytes) -> str:
    """The encoding of a text that begins like this: UTF-8 and UTF-16 with a mark, else UTF-8 or Windows-1252."""
    for mark, name in _MARKS:
        if start.startswith(mark):
            return name
    text = start.decode("utf-8", "replace")
    damaged = text.count("\ufffd") - 1  # the last character may be incomplete
    return "cp1252" if damaged > len(re.findall(r"[^\x00-\x7f\ufffd]", text)) else "utf-8"


def safe_members(path: Path) -> list[zipfile.ZipInfo]:
    """The members of a ZIP archive. Raises CorpusError if it is damaged, or a decompression bomb."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except ZIP_ERRORS as error:
        raise CorpusError(f"{path} is a damaged ZIP archive. Download it again.") from error
    for info in members:
        if info.file_size > max(_MIN_SUSPICIOUS_BYTES, _MAX_EXPANSION * info.compress_size):
            raise CorpusError(
                f"{path}: {info.filename} would grow to more than {_MAX_EXPANSION} times its size, which no text does. "
                "Unpack the archive if you trust it."
            )
    return members


class PieceLines(LineBlocks):
    """The lines of a piece in blocks. Carriage returns end them if the file begins with such lines."""

    def __init__(self, piece: Piece, on_progress: Callable[[int], object] = lambda size: None) -> None:
        super().__init__(piece.path, piece.start, piece.end, on_progress)
        self._piece = piece

    @contextmanager
    def _open(self) -> Iterator[ReadInto]:
        member = self._piece.member
        with super()._open() if member is None else _open_member(self._piece.path, member) as read_into:
            yield read_into if self._piece.start else _with_line_feeds(read_into)


def _with_line_feeds(read_into: ReadInto) -> ReadInto:
    has_returns: bool | None = None  # instead of line feeds

    def read(buffer: memoryview) -> tuple[int, int] | None:
        nonlocal has_returns
        result = read_into(buffer)
        if result is not None and result[0] and has_returns is not False:
            content = bytes(buffer[: result[0]])
            if has_returns is None:
                has_returns = b"\r" in content[:-1] and b"\n" not in content
            if has_returns:
                buffer[: result[0]] = content.replace(b"\r", b"\n")
        return result

    return read
