"""Cells, attention and output of a model as ONNX operators, each the same computation as its class in ``model/``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from seq2seq_chat.checkpoint.variables import variable_name
from seq2seq_chat.export.onnx.graph import OnnxGraph, Value
from seq2seq_chat.export.onnx.weights import WeightFormat
from seq2seq_chat.model.attention import AdditiveAttention, Attention, DotAttention, GeneralAttention
from seq2seq_chat.model.cells import Cell, GRUCell, LSTMCell, RNNCell
from seq2seq_chat.model.decoder import Decoder
from seq2seq_chat.model.embeddings import Embedding
from seq2seq_chat.model.output import Output
from seq2seq_chat.model.weights import Weight
from seq2seq_chat.system.errors import UserError

State = list[Value]
"""The parts of a cell's state, [rows, hidden] each; its output first."""


class Layers(NamedTuple):
    """Adds the layers of a model to a graph."""

    graph: OnnxGraph
    weights: WeightFormat

    def weight(self, weight: Weight, x: Value) -> Value:
        """x: [..., inputs] → x W: [..., outputs]."""
        return self.weights.linear(self.graph, x, variable_name(weight.matrix), weight.matrix.numpy().T)

    def variable(self, variable: tf.Variable) -> Value:
        """A bias or another vector."""
        return self.graph.constant(variable.numpy(), variable_name(variable))

    def embed(self, embedding: Embedding, ids: Value) -> Value:
        """ids: [...] → vectors: [..., size]."""
        return self.weights.rows(self.graph, ids, variable_name(embedding.table), embedding.table.numpy())

    def project_inputs(self, cell: Cell, inputs: Value | None) -> Value:
        """See :meth:`Cell.project_inputs`."""
        bias = self.variable(cell.bias)
        if cell.input is None or inputs is None:
            return bias
        return self.graph.op("Add", self.weight(cell.input, inputs), bias)

    def cell_step(self, cell: Cell, projected: Value, step_input: Value | None, state: State) -> State:
        """One step of a cell → its next state."""
        for kind, step in _CELL_STEPS.items():
            if isinstance(cell, kind):
                return step(self, cell, projected, step_input, state)
        raise UserError(f"there is no ONNX export of the cell {type(cell).__name__}; use --format saved_model")

    def attention_keys(self, attention: Attention, values: Value) -> Value:
        """See :meth:`Attention.keys`."""
        if isinstance(attention, AdditiveAttention | GeneralAttention):
            return self.weight(attention.key, values)
        return values

    def attend(self, attention: Attention, memory: Sequence[Value], query: Value) -> tuple[Value, Value]:
        """memory: values, keys and mask, query: [rows, units] → context and weights; see :class:`Attention`."""
        graph, (values, keys, mask) = self.graph, memory
        if isinstance(attention, AdditiveAttention):
            summed = graph.op("Add", keys, graph.op("Unsqueeze", self.weight(attention.query, query), graph.axes(1)))
            vector = graph.op("Unsqueeze", self.variable(attention.score), graph.axes(1))
            scores = graph.op("MatMul", graph.op("Tanh", summed), vector)
        elif isinstance(attention, DotAttention):
            scores = graph.op("MatMul", keys, graph.op("Unsqueeze", query, graph.axes(2)))
        else:
            raise UserError(f"there is no ONNX export of {type(attention).__name__}; use --format saved_model")
        scores = graph.op("Squeeze", scores, graph.axes(2))
        weights = graph.op("Softmax", graph.op("Add", scores, mask), axis=-1)
        context = graph.op("MatMul", graph.op("Unsqueeze", weights, graph.axes(1)), values)
        return graph.op("Squeeze", context, graph.axes(1)), weights

    def combine(self, decoder: Decoder, output: Value, context: Value | None, words: Value | None) -> Value:
        """See :meth:`Decoder.combine`."""
        graph = self.graph
        if decoder.combine_output is None:
            return output
        combined = self.weight(decoder.combine_output, output)
        if context is not None:
            if decoder.queries_previous and decoder.combine_context is not None:
                context = self.weight(decoder.combine_context, context)
            combined = graph.op("Add", context, combined)
        if words is None:
            return graph.op("Tanh", combined)
        size = int(decoder.combine_output.matrix.shape[1]) // 2
        return graph.op("Max", *graph.split(graph.op("Add", combined, words), size, size))

    def logits(self, output: Output, hidden: Value) -> Value:
        """hidden: [rows, units] → [rows, vocabulary]."""
        if output.projection is not None:
            hidden = self.weight(output.projection, hidden)
        logits = self.weights.linear(self.graph, hidden, variable_name(output.words), output.words.numpy())
        return self.graph.op("Add", logits, self.variable(output.bias))


def _lstm_step(layers: Layers, cell: LSTMCell, projected: Value, step_input: Value | None, state: State) -> State:
    graph = layers.graph
    hidden, memory = state
    gates = graph.op("Add", projected, layers.weight(cell.recurrent, graph.concat([step_input, hidden])))
    input_gate, forget_gate, output_gate, candidate = graph.split(gates, *[cell.hidden_size] * 4)
    kept = graph.op("Mul", graph.op("Sigmoid", forget_gate), memory)
    written = graph.op("Mul", graph.op("Sigmoid", input_gate), graph.op("Tanh", candidate))
    memory = graph.op("Add", kept, written)
    return [graph.op("Mul", graph.op("Sigmoid", output_gate), graph.op("Tanh", memory)), memory]


def _gru_step(layers: Layers, cell: GRUCell, projected: Value, step_input: Value | None, state: State) -> State:
    graph, size = layers.graph, cell.hidden_size
    (hidden,) = state
    projected_gates, projected_candidate = graph.split(projected, 2 * size, size)
    summed = graph.op("Add", projected_gates, layers.weight(cell.recurrent, graph.concat([step_input, hidden])))
    update, reset = graph.split(graph.op("Sigmoid", summed), size, size)
    read = graph.concat([step_input, graph.op("Mul", reset, hidden)])
    candidate = graph.op("Tanh", graph.op("Add", projected_candidate, layers.weight(cell.candidate, read)))
    return [graph.op("Add", hidden, graph.op("Mul", update, graph.op("Sub", candidate, hidden)))]


def _rnn_step(layers: Layers, cell: RNNCell, projected: Value, step_input: Value | None, state: State) -> State:
    graph = layers.graph
    summed = graph.op("Add", projected, layers.weight(cell.recurrent, graph.concat([step_input, state[0]])))
    return [graph.op("Tanh", summed)]


_CELL_STEPS: dict[type[Cell], Callable[..., State]] = {LSTMCell: _lstm_step, GRUCell: _gru_step, RNNCell: _rnn_step}


def state_fields(cell: Any) -> tuple[str, ...]:
    """The names of the parts of a cell's state, its output first."""
    return tuple(cell.STATE._fields)
