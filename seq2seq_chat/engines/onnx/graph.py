"""Build ONNX graphs node by node."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from seq2seq_chat import __version__
from seq2seq_chat.engines.onnx.quantization import quantize

OPSET = 17  # of the operators; ONNX Runtime has read it since version 1.12, of 2022
IR_VERSION = 8  # of the file format, the one of that opset
CONTRIBUTED = "com.microsoft"  # operators that only ONNX Runtime has

Value: TypeAlias = str
"""The name of a tensor in a graph."""

TYPES = {
    "float32": TensorProto.FLOAT,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}


class OnnxGraph:
    """A graph under construction.

    Args:
        name: Of the graph.
        parent: The graph that this one is the body of a loop of: it keeps the constants of both.
    """

    def __init__(self, name: str, parent: OnnxGraph | None = None) -> None:
        self.name = name
        self._root: OnnxGraph = self if parent is None else parent._root
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._numbers = itertools.count()

    def input(self, name: str, dtype: str, shape: Sequence[int | str]) -> Value:
        """Declare an input. shape: sizes, or the names of those that vary."""
        self._inputs.append(helper.make_tensor_value_info(name, TYPES[dtype], shape))
        return name

    def output(self, value: Value, name: str, dtype: str, shape: Sequence[int | str]) -> None:
        """Declare a value to be an output."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, TYPES[dtype], shape))

    def constant(self, array: npt.ArrayLike, name: str = "") -> Value:
        """A constant tensor, stored once for each name."""
        name = name or self.unique("constant")
        if name not in self._root._constants:
            self._root._constants[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def op(self, kind: str, *inputs: Value, domain: str = "", **attributes: Any) -> Value:
        """Apply an operator with one output."""
        return self.ops(kind, *inputs, count=1, domain=domain, **attributes)[0]

    def ops(self, kind: str, *inputs: Value, count: int, domain: str = "", **attributes: Any) -> list[Value]:
        """Apply an operator with ``count`` outputs."""
        outputs = [self.unique(kind) for _ in range(count)]
        self._nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **attributes))
        return outputs

    def axes(self, *axes: int) -> Value:
        """Axes, or sizes, as operators take them."""
        return self.constant(np.array(axes, np.int64), f"axes{axes}")

    def concat(self, values: Sequence[Value | None]) -> Value:
        """Concatenate tensors along the last axis; None is left out."""
        present = [value for value in values if value is not None]
        return present[0] if len(present) == 1 else self.op("Concat", *present, axis=-1)

    def split(self, value: Value, *sizes: int) -> list[Value]:
        """Split a tensor along the last axis."""
        return self.ops("Split", value, self.axes(*sizes), count=len(sizes), axis=-1)

    def body(self) -> onnx.GraphProto:
        """The graph as the body of a loop."""
        constants = list(self._constants.values())
        return helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, constants)

    def model(self) -> onnx.ModelProto:
        """The complete model."""
        versions = [helper.make_opsetid("", OPSET)]
        if any(node.domain == CONTRIBUTED for node in self._all_nodes(self._nodes)):
            versions.append(helper.make_opsetid(CONTRIBUTED, 1))
        return helper.make_model(
            self.body(),
            opset_imports=versions,
            ir_version=IR_VERSION,
            producer_name="seq2seq-chat",
            producer_version=__version__,
        )

    def _all_nodes(self, nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
        inner = [attribute.g.node for node in nodes for attribute in node.attribute if attribute.HasField("g")]
        return [*nodes, *(node for body in inner for node in self._all_nodes(body))]

    def unique(self, kind: str) -> str:
        """A name that nothing else in the model has."""
        return f"{kind.lower()}_{next(self._root._numbers)}"


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
