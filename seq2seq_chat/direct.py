"""Writing large files past the operating system's cache.

What is written is usually first copied into memory that the system takes for it. That is fast where memory is, and it
is the better way where the disk is slow. On virtual machines fresh memory may cost more than the disk, however.
"""

from __future__ import annotations

import io
import mmap
import os
import secrets
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows, which has no O_DIRECT either
    fcntl = None  # type: ignore[assignment]

BLOCK = 1 << 23  # bytes written at once; the kernel wants addresses and lengths that are multiples of a sector
THREADS = 2  # that write; a fast disk wants several blocks at a time
FAST = 0.5e9  # bytes a second from which a disk does not need the cache
TRIAL = 1 << 27  # bytes written to find that out


class DirectStream(io.RawIOBase):
    """A new file that is written from its beginning to its end, past the cache; at most the last block goes through it.

    While threads write some blocks, the next one is filled.

    Raises:
        OSError: the file is there already, or its file system cannot do this.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o666)
        self._block, self._filled, self._position = mmap.mmap(-1, BLOCK), 0, 0  # it begins at a page
        self._threads = ThreadPoolExecutor(THREADS, "direct")
        self._writing: deque[Future[mmap.mmap]] = deque()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file

    def write(self, data: object) -> int:
        """All of the data, which is bytes or anything that has their interface."""
        rest = memoryview(data).cast("B")  # type: ignore[arg-type]
        size = len(rest)
        while rest:
            part = rest[: BLOCK - self._filled]
            self._block[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            rest = rest[len(part) :]
            if self._filled == BLOCK:
                self._hand_over()
        return size

    def flush(self) -> None:
        """Write what is left. It is no whole block, so nothing can be written past the cache after it."""
        if self.closed:
            return
        while self._writing:
            self._writing.popleft().result()
        if self._filled:
            flags = fcntl.fcntl(self._file, fcntl.F_GETFL)
            fcntl.fcntl(self._file, fcntl.F_SETFL, flags & ~os.O_DIRECT)
            size, self._filled = self._filled, 0
            self._write_out(self._block, size, self._position)
            self._position += size

    def close(self) -> None:
        if not self.closed:
            try:
                super().close()  # flushes
            finally:
                self._threads.shutdown()
                os.close(self._file)

    def _hand_over(self) -> None:
        """Have the block written, and go on with one that has been."""
        self._writing.append(self._threads.submit(self._write_out, self._block, BLOCK, self._position))
        self._position, self._filled = self._position + BLOCK, 0
        many = len(self._writing) > THREADS
        self._block = self._writing.popleft().result() if many else mmap.mmap(-1, BLOCK)

    def _write_out(self, block: mmap.mmap, size: int, position: int) -> mmap.mmap:
        with memoryview(block) as view:
            done = 0
            while done < size:
                done += os.pwrite(self._file, view[done:size], position + done)
        return block


def is_fast(folder: Path) -> bool:
    """Whether the disk of a folder is so fast that its files are better written past the cache; tries it."""
    path = folder / f".{secrets.token_hex(4)}.tmp"
    block = os.urandom(BLOCK)  # zeros would be compressed by some file systems
    try:
        begun = time.monotonic()
        with DirectStream(path) as stream:
            for _ in range(TRIAL // BLOCK):
                stream.write(block)
        return TRIAL / (time.monotonic() - begun) > FAST
    except (OSError, AttributeError):  # the file system cannot, or the operating system
        return False
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
