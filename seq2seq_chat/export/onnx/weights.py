"""How an ONNX graph stores weight matrices and computes with them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import onnx

from seq2seq_chat.export.onnx.graph import CONTRIBUTED, OnnxGraph, Value
from seq2seq_chat.export.onnx.quantization import quantize

OFFSET = 128  # of integers with a sign that are stored without


class WeightFormat(Protocol):
    """Products with a weight matrix whose rows are outputs, and look-ups of its rows.

    Args of all methods: the graph, a tensor, and the name and values of the matrix, [outputs, inputs].
    """

    def linear(self, graph: OnnxGraph, x: Value, name: str, matrix: np.ndarray) -> Value:
        """x: [..., inputs] → x Wᵀ: [..., outputs]."""

    def rows(self, graph: OnnxGraph, ids: Value, name: str, matrix: np.ndarray) -> Value:
        """ids: [...] → rows of the matrix: [..., inputs]."""


class Float32Weights:
    """Weights as they were trained."""

    def linear(self, graph: OnnxGraph, x: Value, name: str, matrix: np.ndarray) -> Value:
        return graph.op("MatMul", x, graph.constant(matrix.T, name))

    def rows(self, graph: OnnxGraph, ids: Value, name: str, matrix: np.ndarray) -> Value:
        return graph.op("Gather", graph.constant(matrix, f"{name}/rows"), ids)


class Int8Weights:
    """Weights as integers of 8 bits, with a scale for each output.

    A product quantizes its input, each row by itself, so that results do not depend on what else is in a batch. The
    operator wants the inputs of an output in blocks, with a scale for each block.
    """

    def linear(self, graph: OnnxGraph, x: Value, name: str, matrix: np.ndarray) -> Value:
        outputs, inputs = matrix.shape
        return graph.op(
            "MatMulNBits",
            x,
            *self._constants(graph, name, matrix),
            domain=CONTRIBUTED,
            K=inputs,
            N=outputs,
            bits=8,
            block_size=_block_size(inputs),
            accuracy_level=4,  # multiply integers
        )

    def rows(self, graph: OnnxGraph, ids: Value, name: str, matrix: np.ndarray) -> Value:
        values, scales = self._constants(graph, name, matrix)
        blocks = graph.op("Cast", graph.op("Gather", values, ids), to=onnx.TensorProto.FLOAT)
        signed = graph.op("Sub", blocks, graph.constant(np.array(OFFSET, np.float32), "offset"))
        scales = graph.op("Unsqueeze", graph.op("Gather", scales, ids), graph.axes(-1))
        rows = graph.op("Reshape", graph.op("Mul", signed, scales), self._joined(graph, ids))
        return graph.op("Slice", rows, graph.axes(0), graph.axes(matrix.shape[1]), graph.axes(-1))

    def _constants(self, graph: OnnxGraph, name: str, matrix: np.ndarray) -> tuple[Value, Value]:
        """The integers, uint8 [outputs, blocks, block size], and the scales, [outputs, blocks]."""
        outputs, inputs = matrix.shape
        size = _block_size(inputs)
        blocks = -(-inputs // size)
        quantized = quantize(matrix, axis=0)
        values = np.full([outputs, blocks * size], OFFSET, np.uint8)
        values[:, :inputs] = quantized.values.astype(np.int16) + OFFSET
        scales = np.repeat(quantized.scales[:, np.newaxis], blocks, axis=1)
        return graph.constant(values.reshape(outputs, blocks, size), name), graph.constant(scales, f"{name}/scales")

    def _joined(self, graph: OnnxGraph, ids: Value) -> Value:
        """The shape of rows whose blocks are joined."""
        return graph.op("Concat", graph.op("Shape", ids), graph.axes(-1), axis=0)


def _block_size(inputs: int) -> int:
    """The power of two from 32 to 256 that takes the least memory: padding, and a scale of four bytes each block."""
    return min((32, 64, 128, 256), key=lambda size: -(-inputs // size) * (size + 4))
