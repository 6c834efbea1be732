"""Convert NumPy arrays and bytes to Arrow arrays by buffer, and back.

pyarrow's own conversions examine each value, and import pandas to recognize its objects, which takes half a second in
each process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def strings(values: Sequence[bytes]) -> pa.StringArray:
    """A string array of UTF-8 values."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=offsets[1:])
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(b"".join(values)))


def lines(block: bytes) -> pa.StringArray:
    """A string array of the lines of a UTF-8 text without a line feed after the last."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    offsets = np.zeros(len(ends) + 2, np.int32)
    offsets[1:-1] = ends - np.arange(len(ends))  # the preceding line feeds are removed
    offsets[-1] = len(block) - len(ends)
    return pa.StringArray.from_buffers(len(ends) + 1, pa.py_buffer(offsets), pa.py_buffer(block.translate(None, b"\n")))


def integers(values: Any, kind: type[np.integer[Any]] = np.int64) -> pa.Array:
    """An integer array."""
    data = pa.py_buffer(np.ascontiguousarray(values, kind))
    return pa.Array.from_buffers(pa.from_numpy_dtype(kind), len(values), [None, data])


def booleans(values: Any) -> pa.Array:
    """A boolean array."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


def floats(values: Any) -> pa.Array:
    """A float64 array in which NaN becomes null."""
    known = ~np.isnan(values)
    bits = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values, np.float64))
    return pa.Array.from_buffers(pa.float64(), len(values), [bits, data])


def to_numpy(column: pa.Array, kind: type[np.integer[Any]] = np.int64) -> Any:
    """An integer array without nulls as a NumPy array that shares its memory."""
    if column.null_count or column.type != pa.from_numpy_dtype(kind):
        raise TypeError(f"{column.type} with {column.null_count} nulls cannot be converted to {kind.__name__}")
    return np.frombuffer(column.buffers()[1], kind)[column.offset :][: len(column)]
