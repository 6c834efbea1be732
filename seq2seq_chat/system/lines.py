"""Read a text file line by line, with errors that name the line."""

from __future__ import annotations

import codecs
import os
import weakref
import zlib
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

from tqdm import tqdm

from seq2seq_chat.system.compressed import DamagedFile, LineBlocks, read_start
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import CHECKED_BYTES

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # byte order marks, also the beginning of the one of UTF-32

MAX_LINE_BYTES = 1 << 20
"""Longer lines are refused: they are no utterances, and their words would take minutes to find."""
TOO_LONG = f"longer than {MAX_LINE_BYTES >> 20} MiB"
BINARY_CHECK_BYTES = 8000
"""Bytes at the start of a file that tell UTF-16 and binary files from text; Git looks at as many."""
_LINE_BYTES = 512  # read at once for a single line: more than most have
_MAX_NUL_SHARE = 0.05  # of these bytes; in UTF-16, at least each space and line end has one
UTF8_REMEDY = "Convert the file to UTF-8, for example with iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"
_UTF16_REMEDY = "is not UTF-8 but UTF-16 or binary. Convert UTF-16 with iconv -f UTF-16 -t UTF-8 OLD > NEW"
_DOCUMENTS = {
    b"PK\x03\x04": "a ZIP archive, or a document such as .docx, .odt or .epub. Unpack it, or save it",
    b"%PDF-": "a PDF document. Save it",
    b"{\\rtf": "an RTF document. Save it",
}


def numbered_lines(path: str | Path, error: type[UserError], *, progress: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end); see :func:`located_lines`."""
    return enumerate(map(itemgetter(1), located_lines(path, error, progress=progress)), start=1)


def located_lines(
    path: str | Path,
    error: type[UserError],
    *,
    progress: bool = False,
    damaged: dict[int, str] | None = None,
) -> Iterator[tuple[int, str]]:
    """Yield (offset of its first byte, line without its end) of a UTF-8 file, plain or compressed (gzip, bzip2, …).

    Only ``\\n`` and ``\\r\\n`` end a line; a byte order mark at the start is dropped. With ``progress``, a bar is
    shown if stderr is a terminal and reading takes longer than two seconds. Offsets are in the decompressed text; see
    :class:`TextFile`.

    Args:
        damaged: If given, a line that is not UTF-8 or too long is yielded as an empty one, with the reason stored
            here under its number (from 1), instead of being an error.

    Raises:
        UserError: The file cannot be read, is not UTF-8 or has a line of more than MAX_LINE_BYTES; an instance of
            ``error``.
    """
    path = Path(path)
    number = 0
    try:
        if reason := why_not_text(read_start(path, BINARY_CHECK_BYTES)):
            raise error(f"{path} {reason}")
        bar = tqdm(
            total=path.stat().st_size,
            desc=path.name,
            unit="B",
            unit_scale=True,
            delay=2,
            disable=None if progress else True,  # None: off unless stderr is a terminal
        )
        with bar:
            for start, view in LineBlocks(path, on_progress=bar.update):
                offset, block = start, bytes(view)
                for raw in block.removesuffix(b"\n").split(b"\n"):
                    number += 1
                    line, reason = _decode(raw, offset)
                    if reason and damaged is None:
                        raise error(f"{path}, line {number}: {reason}")
                    if reason and damaged is not None:
                        damaged[number] = reason
                    yield offset, _without_marks(line, offset)
                    offset += len(raw) + 1
    except (OSError, DamagedFile) as cause:
        raise read_error(path, cause, error) from cause


class TextFile:
    """A plain text file that stays open, whose lines are found by where they begin. Threads may share it.

    Args:
        checksums: What its parts are compared with when they are read, from :func:`part_checksums`.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, path: Path, checksums: Sequence[int] | None = None) -> None:
        self._path, self._descriptor = path, os.open(path, os.O_RDONLY)
        self._unchecked = dict(enumerate(checksums or ()))
        weakref.finalize(self, os.close, self._descriptor)
        self._state = self._current_state()

    def line(self, offset: int, error: type[UserError]) -> str:
        """The line that begins at an offset of :func:`located_lines`.

        Raises:
            UserError: The file is damaged, has changed since it was opened, or cannot be read; an instance of
                ``error``.
        """
        line = b""
        try:
            while not (end := line.find(b"\n") + 1):
                piece = os.pread(self._descriptor, _LINE_BYTES, offset + len(line))
                if not piece:
                    break
                line += piece
            if self._current_state() != self._state:
                raise error(f"{self._path} has changed since it was opened. Start again once it is complete.")
            for part in range(offset // CHECKED_BYTES, (offset + len(line)) // CHECKED_BYTES + 1):
                self._check(part, error)
        except OSError as cause:
            raise read_error(self._path, cause, error) from cause
        return _without_marks((line[: end - 1] if end else line).decode(errors="replace"), offset)

    def _check(self, part: int, error: type[UserError]) -> None:
        """Compare a part with its checksum, once. Raises an ``error`` if they differ."""
        checksum = self._unchecked.get(part)
        if checksum is not None:
            if zlib.crc32(os.pread(self._descriptor, CHECKED_BYTES, part * CHECKED_BYTES)) != checksum:
                raise error(f"{self._path} is damaged. Delete it and run the command again to rebuild it.")
            self._unchecked.pop(part, None)

    def _current_state(self) -> tuple[int, int]:
        state = os.fstat(self._descriptor)
        return state.st_size, state.st_mtime_ns


def _without_marks(line: str, offset: int) -> str:
    """A line without the byte order mark at the start of a file and without a carriage return at the line's end."""
    return (line if offset else line.removeprefix("\ufeff")).removesuffix("\r")


def _decode(raw: bytes, offset: int) -> tuple[str, str | None]:
    """The text of a line that starts at ``offset``, or why it cannot be read."""
    if len(raw) > MAX_LINE_BYTES:
        return "", f"{TOO_LONG}. Write one utterance per line."
    try:
        return raw.decode(), None
    except UnicodeDecodeError as error:
        return "", f"byte {offset + error.start} of the text is not UTF-8. {UTF8_REMEDY}."


def why_not_text(start: bytes) -> str | None:
    """Why a file that begins with these bytes cannot be read as text, and the remedy; None if it can."""
    for mark, kind in _DOCUMENTS.items():
        if start.startswith(mark):
            return f"is {kind} as plain text (UTF-8)."
    return _UTF16_REMEDY if _is_utf16(start) else None


def _is_utf16(start: bytes) -> bool:
    """Whether a file seems to be UTF-16, UTF-32 or binary, by its first bytes.

    It starts with a byte order mark, or has NUL bytes and either many of them or mostly lines that are not UTF-8. A
    text may contain a few NUL characters and damaged lines.
    """
    if start.startswith(_UTF16_MARKS):
        return True
    start = start[:BINARY_CHECK_BYTES]
    nuls, lines = start.count(0), start.split(b"\n")
    is_mostly_utf8 = 2 * sum(map(_is_start_of_utf8, lines)) > len(lines)
    return nuls > 0 and (nuls > _MAX_NUL_SHARE * len(start) or not is_mostly_utf8)


def _is_start_of_utf8(line: bytes) -> bool:
    """Whether the bytes are UTF-8, except that the last character may be incomplete."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(line)
    except UnicodeDecodeError:
        return False
    return True


def read_error(path: Path, cause: Exception, error: type[UserError]) -> UserError:
    """An instance of ``error`` that explains why opening or reading ``path`` failed."""
    if isinstance(cause, FileNotFoundError):
        remedy = f"; {error.missing_file_remedy}" if error.missing_file_remedy else ""
        return error(f"{path} does not exist. Paths are relative to the working directory ({Path.cwd()}){remedy}.")
    if isinstance(cause, IsADirectoryError):
        return error(f"{path} is a folder. Name a file in it.")
    if isinstance(cause, DamagedFile):
        return error(f"{path}: {cause}. Download or create it again.")
    reason = getattr(cause, "strerror", None) or cause
    return error(f"{path} could not be read: {reason}. Check its permissions and the disk.")
