"""Write an ``.npy`` file of unknown length in pieces, so that the array does not have to fit into memory."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

import numpy as np

_HEADER_BYTES = 128  # numpy's header for one or two axes of any length
_BUFFER_ITEMS = 1 << 18


class ArrayWriter:
    """Appends to a one-dimensional array, or to one with rows of ``columns`` values; see ``array_writer``."""

    def __init__(self, file: IO[bytes], dtype: Literal["H", "i", "q", "Q"], columns: int | None) -> None:
        self._file, self._columns = file, columns
        self._buffer = array(dtype)
        self._written = 0
        file.write(bytes(_HEADER_BYTES))

    @property
    def items(self) -> int:
        """Number of values appended."""
        return self._written + len(self._buffer)

    @property
    def rows(self) -> int:
        """Length of the array's first axis."""
        return self.items // (self._columns or 1)

    def extend(self, values: Iterable[int]) -> None:
        """Append values; complete rows if the array has columns."""
        self._buffer.extend(values)
        if len(self._buffer) >= _BUFFER_ITEMS:
            self._flush()

    def finish(self) -> None:
        """Write the buffered values and the header, and flush to the disk."""
        self._flush()
        self._file.seek(0)
        shape = (self.rows, self._columns) if self._columns else (self.rows,)
        header = {"descr": np.dtype(self._buffer.typecode).str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)
        assert self._file.tell() == _HEADER_BYTES
        self._file.flush()
        os.fsync(self._file.fileno())

    def _flush(self) -> None:
        self._written += len(self._buffer)
        self._buffer.tofile(self._file)
        del self._buffer[:]


def id_dtype(vocabulary_size: int) -> Literal["H", "i"]:
    """The smallest type for the ids of a vocabulary, uint16 or int32, as the code shared by numpy and ``array``."""
    return "H" if vocabulary_size <= 1 << 16 else "i"


@contextmanager
def array_writer(path: Path, dtype: Literal["H", "i", "q", "Q"], columns: int | None = None) -> Iterator[ArrayWriter]:
    """Create an ``.npy`` file. The header is written last, so the file is invalid until the block ends.

    Args:
        dtype: uint16, int32, int64 or uint64, as the code shared by numpy and ``array``.
        columns: Length of the second axis; None for a one-dimensional array.
    """
    with open(path, "wb") as file:
        writer = ArrayWriter(file, dtype, columns)
        yield writer
        writer.finish()
