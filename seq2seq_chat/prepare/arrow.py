"""Arrow columns from whole buffers, and back.

The conversions of pyarrow look at one value after the other, and load pandas to see whether they were
given any of its objects, half a second in each process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def strings(values: Sequence[bytes]) -> pa.StringArray:
    """A column of texts, given as UTF-8."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=offsets[1:])
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(b"".join(values)))


def lines(block: bytes) -> pa.StringArray:
    """A column of the lines of a text in UTF-8; there is no line feed after the last."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    offsets = np.zeros(len(ends) + 2, np.int32)
    offsets[1:-1] = ends - np.arange(len(ends))  # the line feeds before are not in the column
    offsets[-1] = len(block) - len(ends)
    return pa.StringArray.from_buffers(len(ends) + 1, pa.py_buffer(offsets), pa.py_buffer(block.translate(None, b"\n")))


def integers(values: Any, kind: type[np.integer[Any]] = np.int64) -> pa.Array:
    """A column of whole numbers."""
    data = pa.py_buffer(np.ascontiguousarray(values, kind))
    return pa.Array.from_buffers(pa.from_numpy_dtype(kind), len(values), [None, data])


def flags(values: Any) -> pa.Array:
    """A column of truth values."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


def floats(values: Any) -> pa.Array:
    """A column of numbers of double precision; those that are NaN are null."""
    known = ~np.isnan(values)
    bits = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values, np.float64))
    return pa.Array.from_buffers(pa.float64(), len(values), [bits, data])


def numbers(column: pa.Array, kind: type[np.integer[Any]] = np.int64) -> Any:
    """The whole numbers of a column without nulls, as an array over the same memory."""
    if column.null_count or column.type != pa.from_numpy_dtype(kind):
        raise TypeError(f"{column.type} with {column.null_count} nulls is no column of {kind.__name__}")
    return np.frombuffer(column.buffers()[1], kind)[column.offset :][: len(column)]
