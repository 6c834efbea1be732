"""Write a ``.npy`` file piece by piece, so that an array need not fit into memory."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np

_HEADER_BYTES = 128  # room for any shape; the format asks for a multiple of 64
_BUFFER_ITEMS = 1 << 18


class NpyWriter:
    """A one-dimensional ``.npy`` array that grows, or one of rows with ``columns`` items.

    The header, which holds the length, is written last: until ``close`` the file is no array.
    Leaving the ``with`` block closes it.
    """

    def __init__(self, path: Path, dtype: Literal["H", "i", "q"], columns: int = 0) -> None:
        """``dtype`` is uint16, int32 or int64, by the code that numpy and array share."""
        self.items = 0
        self._dtype = np.dtype(dtype)
        self._columns = columns
        self._buffer = array(dtype)
        self._file = open(path, "wb")  # noqa: SIM115 - closed by close()
        self._file.write(bytes(_HEADER_BYTES))

    def extend(self, values: Iterable[int]) -> None:
        """Append values (whole rows where there are columns)."""
        before = len(self._buffer)
        self._buffer.extend(values)
        self.items += len(self._buffer) - before
        if len(self._buffer) >= _BUFFER_ITEMS:
            self._flush()

    @property
    def rows(self) -> int:
        """Length of the array's first axis."""
        return self.items // self._columns if self._columns else self.items

    def close(self) -> None:
        """Write what is left and the header, and have it all reach the disk."""
        with self._file:
            self._flush()
            self._file.seek(0)
            self._file.write(self._header())
            self._file.flush()
            os.fsync(self._file.fileno())

    def _flush(self) -> None:
        self._buffer.tofile(self._file)
        del self._buffer[:]

    def _header(self) -> bytes:
        # Version 1.0 of the format: magic, version, length of the rest, a padded dict literal.
        shape = (self.rows, self._columns) if self._columns else (self.rows,)
        fields = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        start = b"\x93NUMPY\x01\x00" + (_HEADER_BYTES - 10).to_bytes(2, "little")
        return start + repr(fields).encode("ascii").ljust(_HEADER_BYTES - 11) + b"\n"

    def __enter__(self) -> NpyWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._file.close()
