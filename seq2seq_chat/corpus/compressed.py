"""Raw bytes of files that may be compressed: told by their first bytes, whatever their names say."""

from __future__ import annotations

import bz2
import lzma
import queue
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zstandard

_RAW_BYTES = 1 << 16  # read at once from a compressed file, which bounds what one step can unpack to
_PLAIN_BYTES = 1 << 18  # at once of a plain file; what is done with it finds it in the processor's cache
_FAULTS = (zlib.error, lzma.LZMAError, zstandard.ZstdError, EOFError, OSError, ValueError)
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
        start = file.read(6)
    return next((make for magic, make in _DECOMPRESSORS.items() if start.startswith(magic)), None)


def read_chunks(path: Path, start: int = 0, end: int | None = None) -> Iterator[Chunk]:
    """The contents of a file, unpacked; of a plain one, only its bytes from ``start`` to ``end``.

    Several compressed members one after the other are one content, as for gzip itself. Compressed
    files are unpacked a little ahead in a thread, beside what is done with their contents.

    Raises:
        BrokenStream: After all that could be read.
        OSError: The file cannot be opened.
    """
    make = _decompressor(path)
    if make is None:
        yield from _plain_chunks(path, start, end)
    else:
        yield from _ahead(_unpacked_chunks(path, make))


def _plain_chunks(path: Path, start: int, end: int | None) -> Iterator[Chunk]:
    with open(path, "rb") as file:
        file.seek(start)
        left = end - start if end is not None else 1 << 62
        while left > 0:
            try:
                data = file.read(min(_PLAIN_BYTES, left))
            except OSError as fault:
                raise BrokenStream(f"cannot be read on: {fault.strerror}") from fault
            if not data:
                return
            left -= len(data)
            yield data, len(data)


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
        except _FAULTS as fault:
            raise BrokenStream(f"the compressed data are damaged: {fault}") from fault
        if taken:
            yield b"", taken


def _ahead(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
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
    return b"".join(data for data, _ in read_chunks(path))


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
            file.readline()
            if file.tell() >= size:
                break
            starts.append(file.tell())
    return starts


class LineBlocks:
    """A file, or a byte range of a plain one that was cut between lines, as blocks of whole lines.

    Iterating yields (offset of the block, block); a block ends with a line feed unless it is the
    last one.

    Attributes:
        too_long: Offsets of the lines that were left out because they exceed LONGEST_LINE bytes.
    """

    def __init__(
        self, path: Path, start: int = 0, end: int | None = None, progress: Callable[[int], None] = lambda taken: None
    ) -> None:
        """``progress`` is told the bytes of the file that were read, as it goes."""
        self.too_long: list[int] = []
        self._path, self._start, self._end, self._progress = path, start, end, progress

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Raises BrokenStream after all that could be read, OSError."""
        offset, held, skipping = self._start, b"", False
        broken: BrokenStream | None = None
        chunks = read_chunks(self._path, self._start, self._end)
        while True:
            try:
                data, taken = next(chunks)
            except StopIteration:
                break
            except BrokenStream as fault:
                broken = fault
                break
            self._progress(taken)
            last = data.rfind(b"\n") + 1
            if skipping and last:
                first = data.index(b"\n") + 1
                offset += first
                data, last, skipping = data[first:], last - first, False
            if skipping:
                offset += len(data)
            elif last:
                yield offset, held + data[:last]
                offset += len(held) + last
                held = data[last:]
            else:
                held += data
            if len(held) > LONGEST_LINE:
                self.too_long.append(offset)
                offset += len(held)
                held, skipping = b"", True
        if broken is not None:
            raise broken  # what is held is the beginning of a line whose end is lost
        if held:
            yield offset, held
