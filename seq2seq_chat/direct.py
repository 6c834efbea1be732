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
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Optional

try:
    import fcntl
except ImportError:  # not on Windows, which has no O_DIRECT either
    fcntl = None  # type: ignore[assignment]

BLOCK = 1 << 23  # bytes written at once; the kernel wants addresses and lengths that are multiples of a sector
FAST = 0.5e9  # bytes a second from which a disk does not need the cache
TRIAL = 1 << 27  # bytes written to find that out


class DirectStream(io.RawIOBase):
    """A new file that is written from its beginning to its end, past the cache; at most the last block goes through it.

    While a thread writes one block, the next one is filled.

    Raises:
        OSError: the file is there already, or its file system cannot do this.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o666)
        self._block, self._other = mmap.mmap(-1, BLOCK), mmap.mmap(-1, BLOCK)  # they begin at a page
        self._filled = 0
        self._thread = ThreadPoolExecutor(1, "direct")
        self._writing: Optional[Future[None]] = None

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
                self._wait()
                self._writing = self._thread.submit(self._write_out, self._block, BLOCK)
                self._block, self._other, self._filled = self._other, self._block, 0
        return size

    def flush(self) -> None:
        """Write what is left. It is no whole block, so nothing can be written past the cache after it."""
        if self.closed:
            return
        self._wait()
        if self._filled:
            flags = fcntl.fcntl(self._file, fcntl.F_GETFL)
            fcntl.fcntl(self._file, fcntl.F_SETFL, flags & ~os.O_DIRECT)
            size, self._filled = self._filled, 0
            self._write_out(self._block, size)

    def close(self) -> None:
        if not self.closed:
            try:
                super().close()  # flushes
            finally:
                self._thread.shutdown()
                os.close(self._file)

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write_out(self, block: mmap.mmap, size: int) -> None:
        with memoryview(block) as view:
            done = 0
            while done < size:
                done += os.write(self._file, view[done:size])


def is_fast(folder: Path) -> bool:
    """Whether the disk of a folder is so fast that its files are better written past the cache; tries it."""
    path = folder / f".{secrets.token_hex(4)}.tmp"
    block = bytes(BLOCK)
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
