"""Matrices whose rows are outputs as 8-bit integers, with a scale for each row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MAX_INT8 = 127  # symmetric: -128 is not used


class QuantizedMatrix(NamedTuple):
    """A matrix W ≈ values · scale, with a scale for each row, which a product x Wᵀ is multiplied by."""

    values: npt.NDArray[np.int8]  # [rows, columns]
    scales: npt.NDArray[np.float32]  # [rows]

    def dequantize(self) -> npt.NDArray[np.float32]:
        """The matrix that the integers stand for: [rows, columns]."""
        return self.values.astype(np.float32) * self.scales[:, np.newaxis]


def quantize(matrix: npt.NDArray[np.float32], largest_integer: int = MAX_INT8) -> QuantizedMatrix:
    """The nearest multiples of each row's scale, which is its largest absolute value / ``largest_integer``.

    Args:
        matrix: finite, [rows, columns].
        largest_integer: at most 127; smaller integers are less exact, but compress better.
    """
    largest = np.abs(matrix).max(axis=1, initial=0.0)
    # multiples of a scale below the smallest normal number would not be exact; such rows become zero
    scales = np.maximum(largest / largest_integer, np.finfo(np.float32).tiny).astype(np.float32)
    values = np.rint(matrix / scales[:, np.newaxis])
    return QuantizedMatrix(np.clip(values, -largest_integer, largest_integer).astype(np.int8), scales)


def relative_error(matrix: npt.NDArray[np.float32], quantized: QuantizedMatrix) -> float:
    """‖W - Ŵ‖ / ‖W‖ in the Frobenius norm; 0 for a matrix of zeros."""
    norm = float(np.linalg.norm(matrix))
    return float(np.linalg.norm(matrix - quantized.dequantize())) / norm if norm else 0.0
