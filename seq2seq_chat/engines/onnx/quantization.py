"""Matrices as 8-bit integers with a scale for each output channel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MAX_INT8 = 127  # symmetric: -128 is not used


class QuantizedMatrix(NamedTuple):
    """A matrix W ≈ values · scale, with a scale for each index of one axis."""

    values: npt.NDArray[np.int8]  # [rows, columns]
    scales: npt.NDArray[np.float32]  # [rows] or [columns]
    axis: int

    def dequantize(self) -> npt.NDArray[np.float32]:
        """The matrix that the integers stand for: [rows, columns]."""
        return self.values.astype(np.float32) * np.expand_dims(self.scales, 1 - self.axis)


def quantize(matrix: npt.NDArray[np.float32], axis: int, largest_integer: int = MAX_INT8) -> QuantizedMatrix:
    """The nearest multiples of each channel's scale, which is its largest absolute value / ``largest_integer``.

    Args:
        matrix: finite, [rows, columns].
        axis: of the output channels, so that a channel's scale can be applied to the result of a product: 1 for x W, 0
            for x Wᵀ and for a table of which rows are read.
        largest_integer: at most 127; smaller integers are less exact, but compress better.
    """
    largest = np.abs(matrix).max(axis=1 - axis, initial=0.0)
    # multiples of a scale below the smallest normal number would not be exact; such channels become zero
    scales = np.maximum(largest / largest_integer, np.finfo(np.float32).tiny).astype(np.float32)
    values = np.rint(matrix / np.expand_dims(scales, 1 - axis))
    return QuantizedMatrix(np.clip(values, -largest_integer, largest_integer).astype(np.int8), scales, axis)


def relative_error(matrix: npt.NDArray[np.float32], quantized: QuantizedMatrix) -> float:
    """‖W - Ŵ‖ / ‖W‖ in the Frobenius norm; 0 for a matrix of zeros."""
    norm = float(np.linalg.norm(matrix))
    return float(np.linalg.norm(matrix - quantized.dequantize())) / norm if norm else 0.0
