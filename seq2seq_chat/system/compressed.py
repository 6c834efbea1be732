"""Read raw files, compressed or not. Compression is detected by magic bytes, not by file names."""

from __future__ import annotations

import bz2
import io
import lzma
import re
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

_RAW_BYTES = 1 << 16  # compressed bytes read at once, which bounds the memory that one step can decompress to
_BLOCK_BYTES = 1 << 18  # bytes read at once; fits into the processor's cache
_PREFETCHED_CHUNKS = 16
DECOMPRESSION_ERRORS = (zlib.error, lzma.LZMAError, zstandard.ZstdError, EOFError, OSError, ValueError)
"""Exceptions that decompressing damaged data may raise."""

MAX_LINE_BYTES = 1 << 26
"""Longer lines are replaced, so that no file can exhaust memory."""
TOO_LONG_LINE = b"?" * ((1 << 20) + 1) + b"\n"
"""What stands for a line of more than MAX_LINE_BYTES: a line that is too long for every reader."""

Chunk = tuple[bytes, int]
"""Decompressed data, and the number of compressed bytes read for it."""


class DamagedFile(Exception):
    """The rest of a file is unreadable: it is truncated, or its compressed data are damaged."""


def _zstandard() -> Any:
    # The monthly dumps need a window of 2 GB, more than the library allows by default.
    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


_MAGIC_BYTES = 10  # of the longest
_DECOMPRESSORS: dict[bytes, Callable[[], Any]] = {
    rb"\x1f\x8b": lambda: zlib.decompressobj(wbits=31),
    rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)": bz2.BZ2Decompressor,  # a text may start with the first three
    rb"\xfd7zXZ\x00": lzma.LZMADecompressor,
    rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18": _zstandard,  # pzstd starts with a skippable frame
}


def is_compressed(path: Path) -> bool:
    """Whether the file starts with the magic bytes of gzip, bzip2, xz or Zstandard. Raises OSError."""
    with open(path, "rb") as file:
        return _find_decompressor(file) is not None


def _find_decompressor(file: BinaryIO) -> Callable[[], Any] | None:
    """What decompresses a file that is read from its start; None if it is not compressed."""
    start = file.read(_MAGIC_BYTES)
    file.seek(0)
    return next((make for magic, make in _DECOMPRESSORS.items() if re.match(magic, start)), None)


ReadInto = Callable[[memoryview], tuple[int, int] | None]
"""Fills the beginning of a buffer. Returns the number of bytes filled and the number of bytes read from the file, or
None at its end."""


@contextmanager
def open_decompressed(path: Path, start: int = 0, end: int | None = None) -> Iterator[ReadInto]:
    """Open a file for reading, decompressed; of a plain file, only its bytes from ``start`` to ``end``.

    Consecutive compressed members are concatenated, as gzip does. A thread decompresses a few chunks ahead. Reading
    raises DamagedFile once everything before the damage has been returned.

    Raises:
        OSError: The file cannot be opened.
    """
    with open(path, "rb", buffering=0) as file:
        make = _find_decompressor(file)
        if make is not None:
            with closing(_prefetch(_decompress(file, make))) as chunks:
                yield _read_chunks(chunks)
            return
        remaining = end - start if end is not None else 1 << 62

        def read_into(buffer: memoryview) -> tuple[int, int] | None:
            nonlocal remaining
            try:
                filled = file.readinto(buffer[:remaining])
            except OSError as error:
                raise DamagedFile(f"could not be read completely: {error.strerror}") from error
            remaining -= filled or 0
            return (filled, filled) if filled else None

        file.seek(start)
        yield read_into


def _read_chunks(chunks: Iterator[Chunk]) -> ReadInto:
    rest = memoryview(b"")

    def read_into(buffer: memoryview) -> tuple[int, int] | None:
        nonlocal rest
        consumed = 0
        if not rest:
            try:
                data, consumed = next(chunks)
            except StopIteration:
                return None
            rest = memoryview(data)
        filled = min(len(rest), len(buffer))
        buffer[:filled], rest = rest[:filled], rest[filled:]
        return filled, consumed

    return read_into


def _decompress(file: BinaryIO, make: Callable[[], Any]) -> Generator[Chunk, None, None]:
    decompressor: Any = None
    try:
        while raw := file.read(_RAW_BYTES):
            consumed = len(raw)
            while raw:
                if decompressor is None:
                    raw = raw.lstrip(b"\x00")  # padding between members
                    if not raw:
                        break
                    decompressor = make()
                data = decompressor.decompress(raw)
                if data:
                    yield data, consumed
                    consumed = 0
                raw = b""
                if decompressor.eof:
                    raw, decompressor = decompressor.unused_data, None
            if consumed:
                yield b"", consumed
        if decompressor is not None:
            raise EOFError("unexpected end of file")
    except DECOMPRESSION_ERRORS as error:
        raise DamagedFile(f"the compressed data are damaged: {error}") from error


def _prefetch(chunks: Iterator[Chunk]) -> Generator[Chunk, None, None]:
    """Produce the chunks in a thread, a bounded number of them ahead."""
    with ThreadPoolExecutor(1) as thread:
        ahead = deque(thread.submit(next, chunks, None) for _ in range(_PREFETCHED_CHUNKS))
        try:
            while (chunk := ahead.popleft().result()) is not None:
                ahead.append(thread.submit(next, chunks, None))
                yield chunk
        finally:
            thread.shutdown(cancel_futures=True)


def read_decompressed(path: Path) -> bytes:
    """The decompressed contents of a small file.

    Raises:
        DamagedFile: The file cannot be read completely.
        OSError: The file cannot be opened.
    """
    with open(path, "rb", buffering=0) as file:
        try:
            content = file.read()
        except OSError as error:
            raise DamagedFile(f"could not be read: {error.strerror}") from error
    return decompressed(content)


def decompressed(content: bytes) -> bytes:
    """The decompressed contents of a file, which may not be compressed. Raises DamagedFile."""
    file = io.BytesIO(content)
    make = _find_decompressor(file)
    return content if make is None else b"".join(data for data, _ in _decompress(file, make))


def read_start(path: Path, size: int) -> bytes:
    """The first bytes of a file, decompressed; fewer if the file is shorter or damaged. Raises OSError."""
    start = b""
    with open(path, "rb") as file, suppress(DamagedFile):
        make = _find_decompressor(file)
        if make is None:
            return file.read(size)
        with closing(_decompress(file, make)) as chunks:
            while len(start) < size and (chunk := next(chunks, None)):
                start += chunk[0]
    return start[:size]


def line_starts(path: Path, spacing: int) -> list[int]:
    """Offsets at which to split a plain file between lines, about ``spacing`` bytes apart; the first is 0.

    Raises:
        OSError: The file cannot be read.
    """
    starts = [0]
    size = path.stat().st_size
    with open(path, "rb") as file:
        while starts[-1] + spacing < size:
            file.seek(starts[-1] + spacing - 1)  # one earlier: a line starts after a line feed
            while (piece := file.readline(_BLOCK_BYTES)) and not piece.endswith(b"\n"):
                pass  # a long line is read in pieces to save memory
            if file.tell() >= size:
                break
            starts.append(file.tell())
    return starts


class LineBlocks:
    """The lines of a file, or of a byte range of a plain one, in blocks of complete lines.

    Iterating yields (offset, block). A block is a view of a buffer that is reused for the next block. It ends with a
    line feed unless it is the last. A line of more than MAX_LINE_BYTES is replaced by a block of TOO_LONG_LINE.

    Args:
        start: First byte to read; must be the start of a line.
        end: End of the byte range; None for the end of the file.
        on_progress: Called with the number of bytes read from the file since the last call.
    """

    def __init__(
        self,
        path: Path,
        start: int = 0,
        end: int | None = None,
        on_progress: Callable[[int], object] = lambda size: None,
    ) -> None:
        self._path, self._start, self._end, self._on_progress = path, start, end, on_progress

    def _open(self) -> AbstractContextManager[ReadInto]:
        return open_decompressed(self._path, self._start, self._end)

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        """Yield the blocks; raise DamagedFile after the last one before the damage, or OSError."""
        data = bytearray(2 * _BLOCK_BYTES)
        held, offset, skipping = 0, self._start, False  # bytes of an incomplete line; where the buffer begins
        with self._open() as read_into:
            while True:
                if len(data) - held < _BLOCK_BYTES:
                    data = data[:held] + bytearray(held + _BLOCK_BYTES)  # a copy, as blocks may refer to this one
                view = memoryview(data)
                result = read_into(view[held : held + _BLOCK_BYTES])  # if this raises, the incomplete line is lost
                if result is None:
                    break
                filled, consumed = result
                self._on_progress(consumed)
                end = held + filled
                last = data.rfind(b"\n", held, end) + 1
                if last:
                    first = 0
                    if skipping or end > MAX_LINE_BYTES:
                        line_end = data.find(b"\n", held, last)
                        if skipping:
                            first, skipping = line_end + 1, False
                        elif line_end > MAX_LINE_BYTES:
                            yield offset, memoryview(TOO_LONG_LINE)
                            first = line_end + 1
                    if last > first:
                        yield offset + first, view[first:last]
                    held = end - last
                    view[:held] = view[last:end]
                    offset += last
                elif skipping:
                    offset += end
                else:
                    held = end
                if held > MAX_LINE_BYTES:
                    yield offset, memoryview(TOO_LONG_LINE)
                    offset, held, skipping = offset + held, 0, True
            if held:
                yield offset, view[:held]
