"""Files of arrays: written in pieces, and verified by checksums when they are read."""

from __future__ import annotations

import os
import weakref
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

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


_PART_BYTES = 1 << 20  # of an array, with a checksum each; as many whole rows as fit, at least one


class StoredArray:
    """An array in an ``.npy`` file, memory-mapped read-only, which stays readable after the file is deleted.

    Attributes:
        array: The array.
        checksums: The CRC-32 of each of its parts; computed if None.

    Raises:
        OSError, EOFError, ValueError: The file cannot be read, or is no array.
    """

    def __init__(self, path: Path, checksums: list[int] | None = None) -> None:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        self.array = np.asarray(mapped)  # a plain array: indexing a numpy.memmap is several times slower
        row_bytes = mapped[:1].nbytes or 1
        self.part_rows = max(1, _PART_BYTES // row_bytes)
        self._part_bytes, self._start = self.part_rows * row_bytes, mapped.offset
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self.parts = -(-len(mapped) // self.part_rows)
        self.checksums = [self._checksum(part) for part in range(self.parts)] if checksums is None else checksums

    def is_intact(self, part: int) -> bool:
        """Whether a part has its checksum."""
        return self._checksum(part) == self.checksums[part]

    def _checksum(self, part: int) -> int:
        # Read rather than mapped, as mapped pages count as memory of the process.
        return zlib.crc32(os.pread(self._descriptor, self._part_bytes, self._start + part * self._part_bytes))


class CheckedArray:
    """A stored array. What is read of it is compared with its checksums first, once for each part.

    Args:
        stored: The array. Reading costs nothing more once all parts have been compared.
        repair: Called with the array if a part differs from its checksum; returns an intact one, or raises UserError.
    """

    def __init__(self, stored: StoredArray, repair: Callable[[StoredArray], StoredArray]) -> None:
        self._repair = repair
        self._use(stored)

    def _use(self, stored: StoredArray) -> None:
        self._stored, self._array = stored, stored.array
        self._pending = np.ones(stored.parts, bool)
        self._is_checked = not stored.parts

    def __len__(self) -> int:
        """Length of the first axis."""
        return len(self._array)

    def __getitem__(self, index: Any) -> Any:
        """Like an array: an integer, a slice, or an array of integers or of bool, of the first axis.

        Raises:
            UserError: The array is damaged and cannot be repaired.
        """
        while not self._is_checked and (damaged := self._find_damage(index)) is not None:
            self._use(self._repair(damaged))
        return self._array[index]

    def _find_damage(self, index: Any) -> StoredArray | None:
        """Compare the parts that an index touches and that were not compared yet; the array if one is damaged."""
        stored, pending = self._stored, self._pending
        for part in np.flatnonzero(self._touched(index) & pending).tolist():
            if not stored.is_intact(part):
                return stored
            pending[part] = False
        self._is_checked = not pending.any()
        return None

    def _touched(self, index: Any) -> npt.NDArray[np.bool_]:
        """[parts] Whether an index touches each part."""
        touched = np.zeros(len(self._pending), bool)
        if isinstance(index, SupportsIndex) and not isinstance(index, np.ndarray):
            index = slice(index, (int(index) + 1) or None)
        if isinstance(index, slice):
            rows = range(*index.indices(len(self._array)))
            if rows:
                first, last = sorted((rows[0], rows[-1]))
                touched[first // self._stored.part_rows : last // self._stored.part_rows + 1] = True
        elif index.dtype == np.bool_:
            touched[:] = True
        else:
            parts = index // self._stored.part_rows
            touched[parts[(parts >= 0) & (parts < len(touched))]] = True  # the array itself rejects the others
        return touched
