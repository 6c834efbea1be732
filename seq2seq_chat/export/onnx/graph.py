"""Build ONNX graphs node by node."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from seq2seq_chat import __version__

OPSET = 17  # of the operators; ONNX Runtime has read it since version 1.12, of 2022
IR_VERSION = 8  # of the file format, the one of that opset
CONTRIBUTED = "com.microsoft"  # operators that only ONNX Runtime has

Value: TypeAlias = str
"""The name of a tensor in a graph."""

TYPES = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "bool": TensorProto.BOOL}


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
