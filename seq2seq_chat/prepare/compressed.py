"""Raw bytes of files that may be compressed: told by their first bytes, whatever their names say."""

from __future__ import annotations

import bz2
import lzma
import queue
import threading
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import zstandard

_RAW_BYTES = 1 << 16  # read at once from a compressed file, which bounds what one step can unpack to
_BLOCK_BYTES = 1 << 18  # at once of what is read; what is done with it finds it in the processor's cache
FAULTS = (zlib.error, lzma.LZMAError, zstandard.ZstdError, EOFError, OSError, ValueError)
"""What unpacking damaged data raises."""
_AHEAD = 16

LONGEST_LINE = 1 << 26
"""Bytes of a line beyond which it is taken for damage, so that no file can fill the memory."""

Chunk = tuple[bytes, int]
"""Data, and the number of bytes of the file that it took."""


class BrokenStream(Exception):
    """The rest of a file cannot be read: it is cut off, or its compressed data are damaged."""


def _zstandard() -> Any:
    # The monthly dumps are packed with a window of 2 GB, which the library refuses unless asked.
    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


_DECOMPRESSORS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(wbits=31),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lzma.LZMADecompressor,
    b"\x28\xb5\x2f\xfd": _zstandard,
}


def is_compressed(path: Path) -> bool:
    """Whether the file starts like one of gzip, bzip2, xz or Zstandard. Raises OSError."""
    return _decompressor(path) is not None


def _decompressor(path: Path) -> Callable[[], Any] | None:
    with open(path, "rb") as file:
        return _decompressor_of(file.read(6))


def _decompressor_of(start: bytes) -> Callable[[], Any] | None:
    return next((make for magic, make in _DECOMPRESSORS.items() if start.startswith(magic)), None)


Filler = Callable[[memoryview], tuple[int, int] | None]
"""Fills the beginning of a buffer; returns how much, and the number of bytes of the file that it took, or at the end
None."""


@contextmanager
def _filler(path: Path, start: int, end: int | None) -> Iterator[Filler]:
    """The contents of a file, unpacked; of a plain one, only its bytes from ``start`` to ``end``.

    Several compressed members one after the other are one content, as for gzip itself. Compressed
    files are unpacked a little ahead in a thread, beside what is done with their contents. A
    filler raises BrokenStream after all that could be read.

    Raises:
        OSError: The file cannot be opened.
    """
    make = _decompressor(path)
    if make is not None:
        with closing(_ahead(_unpacked_chunks(path, make))) as chunks:
            yield _from_chunks(chunks)
        return
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        left = end - start if end is not None else 1 << 62

        def fill(buffer: memoryview) -> tuple[int, int] | None:
            nonlocal left
            try:
                filled = file.readinto(buffer[:left])
            except OSError as fault:
                raise BrokenStream(f"cannot be read on: {fault.strerror}") from fault
            left -= filled or 0
            return (filled, filled) if filled else None

        yield fill


def _from_chunks(chunks: Iterator[Chunk]) -> Filler:
    rest = memoryview(b"")

    def fill(buffer: memoryview) -> tuple[int, int] | None:
        nonlocal rest
        taken = 0
        while not rest:
            try:
                data, took = next(chunks)
            except StopIteration:
                return (0, taken) if taken else None
            rest, taken = memoryview(data), taken + took
        size = min(len(rest), len(buffer))
        buffer[:size], rest = rest[:size], rest[size:]
        return size, taken

    return fill


def _unpacked_chunks(path: Path, make: Callable[[], Any]) -> Iterator[Chunk]:
    with open(path, "rb") as file:
        decompressor: Any = None
        taken = 0
        try:
            while raw := file.read(_RAW_BYTES):
                taken += len(raw)
                while raw:
                    if decompressor is None:
                        raw = raw.lstrip(b"\x00")  # padding between members, as tapes leave it
                        if not raw:
                            break
                        decompressor = make()
                    data = decompressor.decompress(raw)
                    if data:
                        yield data, taken
                        taken = 0
                    raw = b""
                    if decompressor.eof:
                        raw, decompressor = decompressor.unused_data, None
            if decompressor is not None:
                raise EOFError("it ends before its compressed data do")
        except FAULTS as fault:
            raise BrokenStream(f"the compressed data are damaged: {fault}") from fault
        if taken:
            yield b"", taken


def _ahead(chunks: Iterator[Chunk]) -> Generator[Chunk, None, None]:
    """The same chunks, made in a thread of their own, a bounded number of them ahead."""
    made: queue.Queue[Chunk | Exception | None] = queue.Queue(_AHEAD)
    stop = threading.Event()

    def put(item: Chunk | Exception | None) -> bool:
        while not stop.is_set():
            try:
                made.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def make() -> None:
        try:
            for chunk in chunks:
                if not put(chunk):
                    return
            put(None)
        except Exception as fault:
            put(fault)

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    try:
        while (item := made.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()


def read_whole(path: Path) -> bytes:
    """The contents of a small file, unpacked.

    Raises:
        BrokenStream: Some of it cannot be read.
        OSError: The file cannot be opened.
    """
    with open(path, "rb", buffering=0) as file:
        try:
            content = file.read()
        except OSError as fault:
            raise BrokenStream(f"cannot be read: {fault.strerror}") from fault
    make = _decompressor_of(content)
    return content if make is None else b"".join(data for data, _ in _unpacked_chunks(path, make))


def line_starts(path: Path, apart: int) -> list[int]:
    """Offsets at which a plain file can be cut between lines, about ``apart`` bytes from each other; 0 is the first.

    Raises:
        OSError: The file cannot be read.
    """
    starts = [0]
    size = path.stat().st_size
    with open(path, "rb") as file:
        while starts[-1] + apart < size:
            file.seek(starts[-1] + apart - 1)  # one earlier: a line starts after a line feed
            while (part := file.readline(_BLOCK_BYTES)) and not part.endswith(b"\n"):
                pass  # a long line is not held as a whole
            if file.tell() >= size:
                break
            starts.append(file.tell())
    return starts


class LineBlocks:
    """A file, or a byte range of a plain one that was cut between lines, as blocks of whole lines.

    Iterating yields (offset of the block, block), the block in a buffer that is used again for the
    next; it ends with a line feed unless it is the last one.

    Attributes:
        too_long: Offsets of the lines that were left out because they exceed LONGEST_LINE bytes.
    """

    def __init__(
        self, path: Path, start: int = 0, end: int | None = None, progress: Callable[[int], None] = lambda taken: None
    ) -> None:
        """``progress`` is told the bytes of the file that were read, as it goes."""
        self.too_long: list[int] = []
        self._path, self._start, self._end, self._progress = path, start, end, progress

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        """Raises BrokenStream after all that could be read, OSError."""
        data = bytearray(2 * _BLOCK_BYTES)
        held, offset, skipping = 0, self._start, False
        with _filler(self._path, self._start, self._end) as fill:
            while True:
                if len(data) - held < _BLOCK_BYTES:
                    data = data[:held] + bytearray(held + _BLOCK_BYTES)  # another one, as blocks may refer to this
                view = memoryview(data)
                found = fill(view[held : held + _BLOCK_BYTES])  # what is held of a line is lost if this raises
                if found is None:
                    break
                filled, taken = found
                self._progress(taken)
                end = held + filled
                last = data.rfind(b"\n", held, end) + 1
                if last:
                    first = 0
                    if skipping or end > LONGEST_LINE:
                        line_end = data.find(b"\n", held, last)
                        if skipping:
                            first, skipping = line_end + 1, False
                        elif line_end > LONGEST_LINE:
                            self.too_long.append(offset)
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
                if held > LONGEST_LINE:
                    self.too_long.append(offset)
                    offset, held, skipping = offset + held, 0, True
            if held:
                yield offset, view[:held]
