"""Read a text file line by line, with errors that name the line."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tqdm import tqdm

from seq2seq_chat.system.errors import UserError

_GZIP_MAGIC = b"\x1f\x8b"  # never the start of a UTF-8 text, so the file name does not matter
_LINES_PER_UPDATE = 4096
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # byte order marks, also the beginning of the one of UTF-32

MAX_LINE_BYTES = 1 << 20
"""Longer lines are refused: they are no utterances, and their words would take minutes to find."""
TOO_LONG = f"longer than {MAX_LINE_BYTES >> 20} MiB"
BINARY_CHECK_BYTES = 8000
"""Bytes at the start of a file that must not contain NUL; Git distinguishes text and binary files by as many."""
UTF16_REMEDY = "is not UTF-8 but UTF-16 or binary. Convert UTF-16 with iconv -f UTF-16 -t UTF-8 OLD > NEW"


def numbered_lines(path: str | Path, error: type[UserError], *, progress: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a UTF-8 file, plain or gzip.

    Only ``\\n`` and ``\\r\\n`` end a line; a byte order mark at the start is dropped. With ``progress``, a bar is
    shown if stderr is a terminal and reading takes longer than two seconds.

    Raises:
        UserError: The file cannot be read, is not UTF-8 or has a line of more than MAX_LINE_BYTES; an instance of
            ``error``.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            bar = tqdm(
                total=os.fstat(file.fileno()).st_size,
                desc=path.name,
                unit="B",
                unit_scale=True,
                delay=2,
                disable=None if progress else True,  # None: off unless stderr is a terminal
            )
            compressed = file.peek(2)[:2] == _GZIP_MAGIC
            stream = gzip.GzipFile(fileobj=file) if compressed else file
            if is_utf16(stream.peek(BINARY_CHECK_BYTES)):
                raise error(f"{path} {UTF16_REMEDY}")
            offset = 0
            with bar:
                for number, line in enumerate(iter(partial(stream.readline, MAX_LINE_BYTES + 1), b""), start=1):
                    if number % _LINES_PER_UPDATE == 0:
                        bar.update(file.tell() - bar.n)
                    if len(line) > MAX_LINE_BYTES:
                        raise error(f"{path}, line {number}: {TOO_LONG}. Write one utterance per line.")
                    try:
                        text = line.decode("utf-8")
                    except UnicodeDecodeError as cause:
                        raise error(
                            f"{path}, line {number}: byte {offset + cause.start} of the text is "
                            "not UTF-8. Convert the file to UTF-8."
                        ) from cause
                    offset += len(line)
                    if number == 1:
                        text = text.removeprefix("\ufeff")
                    yield number, text.removesuffix("\n").removesuffix("\r")
                bar.update(file.tell() - bar.n)
    except (OSError, EOFError, zlib.error) as cause:
        raise read_error(path, cause, error) from cause


def is_utf16(start: bytes) -> bool:
    """Whether a file seems to be UTF-16, UTF-32 or binary: it starts with a byte order mark, or with NUL bytes soon."""
    return start.startswith(_UTF16_MARKS) or b"\0" in start[:BINARY_CHECK_BYTES]


def read_error(path: Path, cause: Exception, error: type[UserError]) -> UserError:
    """An instance of ``error`` that explains why opening or reading ``path`` failed."""
    if isinstance(cause, FileNotFoundError):
        return error(
            f"{path} does not exist. Paths are relative to the working directory ({Path.cwd()}); run seq2seq-chat "
            "prepare to create corpora and vocabularies."
        )
    if isinstance(cause, IsADirectoryError):
        return error(f"{path} is a folder. Name a file in it.")
    if isinstance(cause, (EOFError, zlib.error, gzip.BadGzipFile)):
        return error(f"{path} is a damaged gzip file ({cause}). Download or create it again.")
    reason = getattr(cause, "strerror", None) or cause
    return error(f"{path} could not be read: {reason}. Check its permissions and the disk.")
