"""Arrays in files, memory-mapped, whose contents are compared with checksums when they are first read."""

from __future__ import annotations

import os
import weakref
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

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
