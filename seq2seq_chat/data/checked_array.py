"""Arrays in files, memory-mapped, whose contents are compared with checksums when they are first read."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

_PART_BYTES = 1 << 20  # of an array, with a checksum each


class StoredArray(NamedTuple):
    """An array, and the CRC-32 of each of its parts."""

    array: npt.NDArray[Any]
    checksums: list[int]

    def has_length(self, length: int) -> bool:
        """Whether the array has this length, and a checksum for each part."""
        return len(self.array) == length and len(self.checksums) == -(-length // _part_rows(self.array))


def part_checksums(path: Path) -> list[int]:
    """The CRC-32 of each mebibyte of an array in an ``.npy`` file, or of as many whole rows as fit into one."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    part_bytes = _part_rows(array) * array[:1].nbytes
    with open(path, "rb") as file:  # read rather than mapped: mapped pages would count as memory of the process
        file.seek(array.offset)
        return [zlib.crc32(part) for part in iter(partial(file.read, part_bytes), b"")] if len(array) else []


def _part_rows(array: npt.NDArray[Any]) -> int:
    return max(1, _PART_BYTES // array[:1].nbytes) if len(array) else 1


class CheckedArray:
    """A stored array. What is read of it is compared with its checksums first, once for each part.

    Args:
        stored: The array. Reading costs nothing more once all parts have been compared.
        repair: Called with the array if a part differs from its checksum; returns an intact one, or raises UserError.
    """

    def __init__(self, stored: StoredArray, repair: Callable[[npt.NDArray[Any]], StoredArray]) -> None:
        self._repair = repair
        self._use(stored)

    def _use(self, stored: StoredArray) -> None:
        self._array, self._checksums = stored
        self._part_rows = _part_rows(self._array)
        self._pending = np.ones(len(self._checksums), bool)
        self._is_checked = not len(self._pending)

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

    def _find_damage(self, index: Any) -> npt.NDArray[Any] | None:
        """Compare the parts that an index touches and that were not compared yet; the array if one is damaged."""
        array, pending = self._array, self._pending
        for part in np.flatnonzero(self._touched(index) & pending).tolist():
            start = part * self._part_rows
            if zlib.crc32(array[start : start + self._part_rows].data) != self._checksums[part]:
                return array
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
                touched[first // self._part_rows : last // self._part_rows + 1] = True
        elif index.dtype == np.bool_:
            touched[:] = True
        else:
            parts = index // self._part_rows
            touched[parts[(parts >= 0) & (parts < len(touched))]] = True  # the array itself rejects the others
        return touched
