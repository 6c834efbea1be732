"""Cells, attention and output of a model as ONNX operators, each the same computation as its class in ``model/``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from seq2seq_chat.architecture.variables import SHARED, TARGET, decoder_output_size, queries_previous
from seq2seq_chat.config import Model
from seq2seq_chat.engines.onnx.graph import OnnxGraph, Value, WeightFormat

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
