"""Cells, attention and output of a model as ONNX operators, and graphs that are built of operators."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from seq2seq_chat import __version__
from seq2seq_chat.architecture.variables import SHARED, TARGET, decoder_output_size, queries_previous
from seq2seq_chat.config import Model
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
        parent: The graph that this one is the body of a loop of: it keeps the constants of both.
    """

    def __init__(self, name: str, parent: OnnxGraph | None = None) -> None:
        self.name = name
        self._root: OnnxGraph = self if parent is None else parent._root
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._versions = {"": OPSET}  # of the operators, by domain
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
        self._root._versions.setdefault(domain, 1)
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
        versions = [helper.make_opsetid(domain, version) for domain, version in self._root._versions.items()]
        return helper.make_model(
            self.body(),
            opset_imports=versions,
            ir_version=IR_VERSION,
            producer_name="seq2seq-chat",
            producer_version=__version__,
        )

    def unique(self, kind: str) -> str:
        """A name that nothing else in the model has."""
        return f"{kind.lower()}_{next(self._root._numbers)}"


OFFSET = 128  # of integers with a sign that are stored without


class WeightFormat:
    """Products with a weight matrix whose rows are outputs, and look-ups of its rows; weights as they were trained.

    Args of all methods: the graph, a tensor, and the name and values of the matrix, [outputs, inputs].
    """

    def linear(self, graph: OnnxGraph, x: Value, name: str, matrix: np.ndarray) -> Value:
        """x: [..., inputs] → x Wᵀ: [..., outputs]."""
        return graph.op("MatMul", x, graph.constant(matrix.T, name))

    def rows(self, graph: OnnxGraph, ids: Value, name: str, matrix: np.ndarray) -> Value:
        """ids: [...] → rows of the matrix: [..., inputs]."""
        return graph.op("Gather", graph.constant(matrix, f"{name}/rows"), ids)


class Int8Weights(WeightFormat):
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
        joined = graph.op("Concat", graph.op("Shape", ids), graph.axes(-1), axis=0)  # the shape of rows without blocks
        rows = graph.op("Reshape", graph.op("Mul", signed, scales), joined)
        return graph.op("Slice", rows, graph.axes(0), graph.axes(matrix.shape[1]), graph.axes(-1))

    def _constants(self, graph: OnnxGraph, name: str, matrix: np.ndarray) -> tuple[Value, Value]:
        """The integers, uint8 [outputs, blocks, block size], and the scales, [outputs, blocks]."""
        outputs, inputs = matrix.shape
        size = _block_size(inputs)
        blocks = -(-inputs // size)
        quantized = quantize(matrix)
        values = np.full([outputs, blocks * size], OFFSET, np.uint8)
        values[:, :inputs] = quantized.values.astype(np.int16) + OFFSET
        scales = np.repeat(quantized.scales[:, np.newaxis], blocks, axis=1)
        return graph.constant(values.reshape(outputs, blocks, size), name), graph.constant(scales, f"{name}/scales")


def _block_size(inputs: int) -> int:
    """The power of two from 32 to 256 that takes the least memory: padding, and a scale of four bytes each block."""
    return min((32, 64, 128, 256), key=lambda size: -(-inputs // size) * (size + 4))


ATTENTION_SCORES = ("additive", "concat", "dot", "general")
State = list[Value]
"""The parts of a cell's state, [rows, hidden] each; its output first."""


class Layers(NamedTuple):
    """Adds the layers of a model to a graph; a cell, a matrix and a vector are given by their names."""

    graph: OnnxGraph
    weights: WeightFormat
    config: Model
    arrays: Mapping[str, np.ndarray]  # the model's variables by name

    def weight(self, name: str, x: Value) -> Value:
        """x: [..., inputs] → x W: [..., outputs]."""
        return self.weights.linear(self.graph, x, name, self.arrays[name].T)

    def variable(self, name: str) -> Value:
        """A bias or another vector."""
        return self.graph.constant(self.arrays[name], name)

    def embed(self, side: str, ids: Value) -> Value:
        """ids of the side's words: [...] → vectors: [..., size]."""
        return self.weights.rows(self.graph, ids, self.embedding(side), self.arrays[self.embedding(side)])

    def embedding(self, side: str) -> str:
        """The embedding of a side, ``SOURCE`` or ``TARGET``, which may be shared."""
        return SHARED if self.config.shared_embeddings else side

    def project_inputs(self, cell: str, inputs: Value | None) -> Value:
        """See :meth:`Cell.project_inputs`."""
        bias = self.variable(f"{cell}/bias")
        return bias if inputs is None else self.graph.op("Add", self.weight(f"{cell}/input", inputs), bias)

    def cell_step(self, cell: str, projected: Value, step_input: Value | None, state: State) -> State:
        """One step of a cell → its next state."""
        return _CELL_STEPS[self.config.cell](self, cell, projected, step_input, state)

    def top_output(self, states: Sequence[State]) -> Value:
        """See :meth:`Decoder.top_output`."""
        outputs = [state[0] for state in states]
        return self.graph.op("Sum", *outputs) if self.config.residual and len(outputs) > 1 else outputs[-1]

    def attention_keys(self, values: Value) -> Value:
        """See :meth:`Attention.keys`."""
        key = "decoder/attention/key"
        return self.weight(key, values) if key in self.arrays else values

    def attend(self, memory: Sequence[Value], query: Value) -> tuple[Value, Value]:
        """memory: values, keys and mask, query: [rows, units] → context and weights; see :class:`Attention`."""
        graph, kind, (values, keys, mask) = self.graph, self.config.attention, memory
        if kind in ("additive", "concat"):
            queries = graph.op("Unsqueeze", self.weight("decoder/attention/query", query), graph.axes(1))
            summed = graph.op("Add", keys, queries)
            vector = graph.op("Unsqueeze", self.variable("decoder/attention/score"), graph.axes(1))
            scores = graph.op("MatMul", graph.op("Tanh", summed), vector)
        else:
            scores = graph.op("MatMul", keys, graph.op("Unsqueeze", query, graph.axes(2)))
        scores = graph.op("Squeeze", scores, graph.axes(2))
        weights = graph.op("Softmax", graph.op("Add", scores, mask), axis=-1)
        context = graph.op("MatMul", graph.op("Unsqueeze", weights, graph.axes(1)), values)
        return graph.op("Squeeze", context, graph.axes(1)), weights

    def combine(self, output: Value, context: Value | None, words: Value | None) -> Value:
        """See :meth:`Decoder.combine`."""
        graph, combine = self.graph, self.combination
        if self.config.output == "concatenated":
            return graph.concat([output, context])
        if f"{combine}/output" not in self.arrays:
            return output
        combined = self.weight(f"{combine}/output", output)
        if context is not None:
            if queries_previous(self.config):
                context = self.weight(f"{combine}/context", context)
            combined = graph.op("Add", context, combined)
        if words is None:
            return graph.op("Tanh", combined)
        size = decoder_output_size(self.config)
        return graph.op("Max", *graph.split(graph.op("Add", combined, words), size, size))

    @property
    def combination(self) -> str:
        """The prefix of the matrices that combine the decoder's output with the context."""
        return "decoder/maxout" if self.config.output == "maxout" else "decoder/combine"

    def logits(self, hidden: Value) -> Value:
        """hidden: [rows, units] → [rows, vocabulary]."""
        if "output/projection" in self.arrays:
            hidden = self.weight("output/projection", hidden)
        words = self.embedding(TARGET) if self.config.tie_embeddings else "output/words"
        logits = self.weights.linear(self.graph, hidden, words, self.arrays[words])
        return self.graph.op("Add", logits, self.variable("output/bias"))


def _lstm_step(layers: Layers, cell: str, projected: Value, step_input: Value | None, state: State) -> State:
    graph = layers.graph
    hidden, memory = state
    gates = graph.op("Add", projected, layers.weight(f"{cell}/recurrent", graph.concat([step_input, hidden])))
    input_gate, forget_gate, output_gate, candidate = graph.split(gates, *[layers.config.hidden_size] * 4)
    kept = graph.op("Mul", graph.op("Sigmoid", forget_gate), memory)
    written = graph.op("Mul", graph.op("Sigmoid", input_gate), graph.op("Tanh", candidate))
    memory = graph.op("Add", kept, written)
    return [graph.op("Mul", graph.op("Sigmoid", output_gate), graph.op("Tanh", memory)), memory]


def _gru_step(layers: Layers, cell: str, projected: Value, step_input: Value | None, state: State) -> State:
    graph, size = layers.graph, layers.config.hidden_size
    (hidden,) = state
    projected_gates, projected_candidate = graph.split(projected, 2 * size, size)
    summed = graph.op("Add", projected_gates, layers.weight(f"{cell}/recurrent", graph.concat([step_input, hidden])))
    update, reset = graph.split(graph.op("Sigmoid", summed), size, size)
    read = graph.concat([step_input, graph.op("Mul", reset, hidden)])
    candidate = graph.op("Tanh", graph.op("Add", projected_candidate, layers.weight(f"{cell}/candidate", read)))
    return [graph.op("Add", hidden, graph.op("Mul", update, graph.op("Sub", candidate, hidden)))]


def _rnn_step(layers: Layers, cell: str, projected: Value, step_input: Value | None, state: State) -> State:
    graph = layers.graph
    summed = graph.op("Add", projected, layers.weight(f"{cell}/recurrent", graph.concat([step_input, state[0]])))
    return [graph.op("Relu" if layers.config.activation == "relu" else "Tanh", summed)]


_CELL_STEPS: dict[str, Callable[..., State]] = {"lstm": _lstm_step, "gru": _gru_step, "rnn": _rnn_step}


def missing_layer(config: Model) -> str | None:
    """A layer of the model that cannot be written as ONNX operators, if there is one."""
    if config.cell not in _CELL_STEPS:
        return f"the cell {config.cell}"
    return None if config.attention in ("none", *ATTENTION_SCORES) else f"{config.attention} attention"
