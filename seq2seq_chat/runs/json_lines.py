"""Files of one JSON object a line; the objects of metrics.jsonl and samples.jsonl have a ``step``.

They may be read while a process is writing them: a line that is incomplete or damaged is skipped.
"""

from __future__ import annotations

import fcntl
import functools
import json
import logging
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from seq2seq_chat.system.files import as_user_error, atomic_write

CHECKSUM = ', "crc32": '  # of what precedes it in a line; earlier versions wrote none

logger = logging.getLogger(__name__)


def with_checksum(line: dict[str, Any], ensure_ascii: bool = True) -> bytes:
    """The JSON of an object, which is not empty, with the checksum of what precedes it as its last value."""
    text = json.dumps(line, ensure_ascii=ensure_ascii)[:-1].encode()
    return text + f"{CHECKSUM}{zlib.crc32(text)}}}\n".encode()


def is_intact(line: bytes) -> bool:
    """Whether a complete line has the contents that its checksum is of, or has no checksum."""
    text, _, checksum = line.rpartition(CHECKSUM.encode())
    return not text or checksum == b"%d}\n" % zlib.crc32(text)


class JsonLinesWriter:
    """Appends lines to a file, and removes lines that a resumed training will write again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, line: dict[str, Any]) -> None:
        """Append a line; infinities and NaN become null."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(finite_or_null(line)) + "\n")

    def flush(self) -> int:
        """Flush the file to the disk and return its number of lines."""
        try:
            with open(self._path, "rb") as file:
                os.fsync(file.fileno())
                return sum(1 for _ in file)
        except FileNotFoundError:
            return 0

    def discard_after(self, step: int | None) -> int:
        """Remove the lines of later steps (None: all lines); return the number of remaining lines."""
        if not self._path.exists():
            return 0
        kept = [line for line in read_json_lines(self._path) if step is not None and line["step"] <= step]
        with atomic_write(self._path) as file:
            file.writelines(json.dumps(line) + "\n" for line in kept)
        return len(kept)


def append_durably(path: Path, line: dict[str, Any]) -> None:
    """Append a line with its checksum, and return once it is on the disk: a crash loses at most the line being written.

    Raises:
        UserError: The line could not be written completely, and nothing of it remains in the file; or the file is a
            symbolic link, which somebody else may have put into a run.
    """
    with as_user_error(path), open(path, "a+b", buffering=0, opener=_open_no_link) as file:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(file, fcntl.LOCK_EX)  # a failed write must not remove the line of another process
        text = with_checksum(line)
        if size := file.seek(0, os.SEEK_END):
            file.seek(size - 1)
            text = text if file.read(1) == b"\n" else b"\n" + text  # the line before it is incomplete
        try:
            while text:  # a nearly full disk takes only a part of it
                text = text[file.write(text) :]
            os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                file.truncate(size)
            raise


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def read_objects(path: Path, max_bytes: int | None = None, reports: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file; none if the file cannot be opened.

    Args:
        path: The file.
        max_bytes: Only the end of the file is read, of at most this size.
        reports: Whether to warn of damaged lines, once each; a last line that is incomplete may still be written.
    """
    for number, text in enumerate(_read_lines(path, max_bytes, reports), 1):
        try:
            line = json.loads(text.decode(errors="replace")) if is_intact(text) else None
        except (ValueError, RecursionError):
            line = None
        if isinstance(line, dict):
            line.pop("crc32", None)
            yield line
        elif reports and text.endswith(b"\n"):
            _warn_once(f"line {number} of {path} is damaged and left out")


_warn_once = functools.lru_cache(maxsize=1000)(logger.warning)


def read_json_lines(path: Path, max_bytes: int | None = None, reports: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file that have a step; see :func:`read_objects`."""
    return (line for line in read_objects(path, max_bytes, reports) if is_step(line.get("step")))


def finite_or_null(line: dict[str, Any]) -> dict[str, Any]:
    """Replace infinities and NaN, which JSON cannot represent, with None, also in objects within the object."""

    def convert(value: Any) -> Any:
        if isinstance(value, dict):
            return finite_or_null(value)
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {key: convert(value) for key, value in line.items()}


def finite_number(value: object) -> float | None:
    """A number from JSON; None if it is another value, or too large, infinite or NaN."""
    try:
        return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
    except OverflowError:
        return None


def is_step(value: object) -> bool:
    """Whether a value from JSON is a valid step."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _read_lines(path: Path, max_bytes: int | None, reports: bool) -> Iterator[bytes]:
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        if reports and not isinstance(error, FileNotFoundError):
            _warn_once(f"{path} could not be read: {error.strerror}")
        return
    with file:
        size = file.seek(0, os.SEEK_END)
        start = 0 if max_bytes is None else max(0, size - max_bytes)
        file.seek(start)
        if start:
            file.readline(size - start)  # the rest of a line that starts earlier
        remaining = size - file.tell()  # do not follow a growing file forever
        while remaining > 0 and (line := file.readline(remaining)):
            remaining -= len(line)
            yield line
