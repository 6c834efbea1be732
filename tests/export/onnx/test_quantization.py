"""Matrices as 8-bit integers, against numbers computed by hand and bounds that hold for every matrix."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from seq2seq_chat.engines.onnx.quantization import QuantizedMatrix, quantize, relative_error

MATRICES = arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.floats(-1e6, 1e6, width=32))


def test_numbers_computed_by_hand() -> None:
    matrix = np.array([[1.27, 0.5], [-0.635, -100.0], [0.004, 60.0]], np.float32)
    by_column, by_row = quantize(matrix, axis=1), quantize(matrix, axis=0)
    assert by_column.values.tolist() == [[127, 1], [-64, -127], [0, 76]]  # -63.5 is rounded to the even integer
    np.testing.assert_allclose(by_column.scales, [0.01, 100 / 127], rtol=1e-6)
    assert by_row.values.tolist() == [[127, 50], [-1, -127], [0, 127]]
    np.testing.assert_allclose(by_row.scales, [0.01, 100 / 127, 60 / 127], rtol=1e-6)


def test_the_relative_error_computed_by_hand() -> None:
    matrix = np.array([[3.0, 4.0]], np.float32)
    quantized = QuantizedMatrix(np.array([[3, 1]], np.int8), np.ones(1, np.float32), axis=0)
    assert relative_error(matrix, quantized) == pytest.approx(3 / 5)


@given(MATRICES, st.sampled_from([0, 1]))
def test_no_value_is_off_by_more_than_half_a_scale(matrix: npt.NDArray[np.float32], axis: int) -> None:
    quantized = quantize(matrix, axis)
    assert len(quantized.scales) == matrix.shape[axis]
    allowed = 0.5001 * np.expand_dims(quantized.scales, 1 - axis) + 1e-6 * np.abs(matrix)
    assert np.all(np.abs(quantized.dequantize() - matrix) <= allowed)
    negative = quantize(-matrix, axis)
    assert np.array_equal(negative.values, -quantized.values) and np.array_equal(negative.scales, quantized.scales)


@given(MATRICES)
def test_a_channel_does_not_depend_on_the_others(matrix: npt.NDArray[np.float32]) -> None:
    alone = quantize(matrix[:, :1], axis=1)
    assert np.array_equal(quantize(matrix, axis=1).values[:, :1], alone.values)
    assert np.array_equal(quantize(matrix.T, axis=0).values[:1], alone.values.T)


@pytest.mark.parametrize("value", [0.0, 1e-45, 1e-40])
def test_zeros_and_the_smallest_numbers_stay_finite(value: float) -> None:
    matrix = np.full([2, 3], value, np.float32)
    quantized = quantize(matrix, axis=1)
    assert np.all(np.isfinite(quantized.dequantize())) and relative_error(np.zeros_like(matrix), quantized) == 0.0
