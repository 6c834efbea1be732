"""The ONNX graphs of a model: its encoder, and one step of its decoder."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx

from seq2seq_chat.export.onnx.graph import OnnxGraph, Value
from seq2seq_chat.export.onnx.layers import Layers, State, state_fields
from seq2seq_chat.export.onnx.weights import WeightFormat
from seq2seq_chat.model.attention import MASK_VALUE
from seq2seq_chat.model.cells import Cell
from seq2seq_chat.model.decoder import Decoder, decoder_output_size
from seq2seq_chat.model.encoder import Bridge, Encoder, encoder_output_size
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq

ATTENTIONAL = "attentional"


class Tensor(NamedTuple):
    """A tensor that goes from one graph, or step, to the next: [rows, …]."""

    name: str
    shape: tuple[int | str, ...]  # of a row

    def declare(self, graph: OnnxGraph) -> Value:
        """Add it to the inputs of a graph."""
        return graph.input(self.name, "float32", ["rows", *self.shape])

    def give(self, graph: OnnxGraph, value: Value, prefix: str = "") -> None:
        """Add it to the outputs of a graph."""
        graph.output(value, f"{prefix}{self.name}", "float32", ["rows", *self.shape])


def state_tensors(decoder: Decoder) -> list[Tensor]:
    """The state of a decoder, layer by layer."""
    tensors = [
        Tensor(f"layer{layer}_{field}", (cell.hidden_size,))
        for layer, cell in enumerate(decoder.cells)
        for field in state_fields(cell)
    ]
    if decoder.feeds_output:
        tensors.append(Tensor(ATTENTIONAL, (decoder_output_size(decoder.config),)))
    return tensors


def memory_tensors(decoder: Decoder) -> list[Tensor]:
    """What every step of a decoder reads; see :class:`DecoderMemory`."""
    tensors = []
    if decoder.attention is not None and decoder.combine_context is not None:
        outputs = encoder_output_size(decoder.config)
        values = outputs if decoder.queries_previous else int(decoder.combine_context.matrix.shape[1])
        keys = int(decoder.attention.key.matrix.shape[1]) if hasattr(decoder.attention, "key") else outputs
        tensors += [Tensor("values", ("steps", values)), Tensor("keys", ("steps", keys)), Tensor("mask", ("steps",))]
    if decoder.thought is not None:
        tensors.append(Tensor("thought_cell", (int(decoder.thought.matrix.shape[1]),)))
        if decoder.maxout_reads_thought and decoder.combine_context is not None:
            tensors.append(Tensor("thought_maxout", (int(decoder.combine_context.matrix.shape[1]),)))
    return tensors


def encoder_graph(model: Seq2Seq, weights: WeightFormat) -> onnx.ModelProto:
    """Source ids and lengths → the decoder's state before the first word, and its memory."""
    graph = OnnxGraph("encoder")
    layers, decoder = Layers(graph, weights), model.decoder
    source = graph.input("source", "int32", ["rows", "steps"])
    lengths = graph.input("lengths", "int32", ["rows"])
    mask = _word_mask(graph, source, lengths)
    vectors = layers.embed(model.source_embedding, graph.op("Transpose", source, perm=[1, 0]))
    outputs, states = _encode(layers, model.encoder, vectors, mask)
    state = [part for layer in states for part in layer]
    if decoder.feeds_output:
        size = graph.axes(decoder_output_size(decoder.config))
        shape = graph.op("Concat", graph.op("Shape", lengths), size, axis=0)
        state.append(graph.op("Expand", graph.constant(np.zeros([1, 1], np.float32), "zeros"), shape))
    memory: list[Value] = []
    if decoder.attention is not None and decoder.combine_context is not None:
        outputs = graph.op("Transpose", outputs, perm=[1, 0, 2])
        values = outputs if decoder.queries_previous else layers.weight(decoder.combine_context, outputs)
        is_word = graph.op("Transpose", graph.op("Squeeze", mask, graph.axes(2)), perm=[1, 0])
        penalties = [graph.constant(np.array(value, np.float32)) for value in (0.0, MASK_VALUE)]
        memory += [values, layers.attention_keys(decoder.attention, outputs), graph.op("Where", is_word, *penalties)]
    if decoder.thought is not None:
        vector = states[-1][0]
        memory.append(layers.weight(decoder.thought, vector))
        if decoder.maxout_reads_thought and decoder.combine_context is not None:
            memory.append(layers.weight(decoder.combine_context, vector))
    for tensor, value in zip(state_tensors(decoder) + memory_tensors(decoder), state + memory, strict=True):
        tensor.give(graph, value)
    return graph.model()


def decoder_graph(model: Seq2Seq | LanguageModel, weights: WeightFormat) -> onnx.ModelProto:
    """Previous words, state and memory → logits, their normalizer, next state and attention."""
    graph = OnnxGraph("decoder_step")
    layers, decoder = Layers(graph, weights), model.decoder
    words = graph.input("words", "int32", ["rows"])
    state = [tensor.declare(graph) for tensor in state_tensors(decoder)]
    memory = {tensor.name: tensor.declare(graph) for tensor in memory_tensors(decoder)}
    attended = [memory[name] for name in ("values", "keys", "mask") if name in memory]
    cell_states = _by_layer(decoder, state)

    vectors = layers.embed(model.target_embedding, words)
    projected = layers.project_inputs(decoder.cells[0], vectors)
    maxout = None if decoder.combine_words is None else layers.weight(decoder.combine_words, vectors)
    if "thought_cell" in memory:
        projected = graph.op("Add", projected, memory["thought_cell"])
    if "thought_maxout" in memory and maxout is not None:
        maxout = graph.op("Add", maxout, memory["thought_maxout"])

    step_input = state[-1] if decoder.feeds_output else None
    context = attention = None
    if decoder.attention is not None and decoder.queries_previous:
        context, attention = layers.attend(decoder.attention, attended, cell_states[-1][0])
        step_input = context
    next_states = _step_cells(layers, decoder, projected, step_input, cell_states)
    if decoder.attention is not None and not decoder.queries_previous:
        context, attention = layers.attend(decoder.attention, attended, next_states[-1][0])
    hidden = layers.combine(decoder, next_states[-1][0], context, maxout)

    logits = layers.logits(model.output, hidden)
    graph.output(logits, "logits", "float32", ["rows", model.vocabulary_size])
    graph.output(_log_normalizer(graph, logits), "normalizer", "float32", ["rows"])
    next_state = [part for layer in next_states for part in layer] + ([hidden] if decoder.feeds_output else [])
    for tensor, value in zip(state_tensors(decoder), next_state, strict=True):
        tensor.give(graph, value, "next_")
    if attention is not None:
        graph.output(attention, "attention", "float32", ["rows", "steps"])
    return graph.model()


def _log_normalizer(graph: OnnxGraph, logits: Value) -> Value:
    """log Σ exp of every row, from its most probable word: logit - log p. ReduceLogSumExp is less exact and slower."""
    largest, probable = (
        graph.op("ReduceMax", values, axes=[1], keepdims=0) for values in (logits, graph.op("Softmax", logits, axis=-1))
    )
    return graph.op("Sub", largest, graph.op("Log", probable))


def _word_mask(graph: OnnxGraph, source: Value, lengths: Value) -> Value:
    """Which steps of a source are words: bool [steps, rows, 1]."""
    steps = graph.op("Gather", graph.op("Shape", source), graph.constant(np.array(1, np.int64)))
    zero, one = (graph.constant(np.array(value, np.int64)) for value in (0, 1))
    positions = graph.op("Unsqueeze", graph.op("Range", zero, steps, one), graph.axes(1))
    is_word = graph.op("Less", positions, graph.op("Cast", lengths, to=onnx.TensorProto.INT64))
    return graph.op("Unsqueeze", is_word, graph.axes(2))


def _encode(layers: Layers, encoder: Encoder, vectors: Value, mask: Value) -> tuple[Value, list[State]]:
    """The outputs of the top layer, [steps, rows, units], and the decoder's initial state of each layer."""
    outputs, states = vectors, []
    for layer, cell in enumerate(encoder.cells):
        state, forward = _run_cell(layers, cell, outputs, mask)
        if encoder.backward_cells:
            backward_state, backward = _run_cell(layers, encoder.backward_cells[layer], outputs, mask, backward=True)
            state = _bridge(layers, encoder.bridges[layer], state, backward_state)
            forward = layers.graph.concat([forward, backward])
        outputs = forward
        states.append(state)
    return outputs, states


def _bridge(layers: Layers, bridge: Bridge, forward: State, backward: State) -> State:
    """See :class:`Bridge`."""
    graph = layers.graph
    parts = backward if bridge.backward_only else [graph.concat(both) for both in zip(forward, backward, strict=True)]
    combined = [
        graph.op("Add", layers.weight(weight, part), layers.variable(bias))
        for weight, bias, part in zip(bridge.weights, bridge.biases, parts, strict=True)
    ]
    return [graph.op("Tanh", combined[0]), *combined[1:]]


def _run_cell(layers: Layers, cell: Cell, inputs: Value, mask: Value, backward: bool = False) -> tuple[State, Value]:
    """Run a cell over all steps: its final state, and its outputs, [steps, rows, hidden]. Padding changes no state."""
    graph, fields, size = layers.graph, state_fields(cell), cell.hidden_size
    body = OnnxGraph(f"steps of {cell.bias.name}", graph)
    inner = layers._replace(graph=body)
    suffix = graph.unique("step")
    old = [body.input(f"{field}_{suffix}", "float32", ["rows", size]) for field in fields]
    projected = body.input(f"projected_{suffix}", "float32", ["rows", cell.GATES * size])
    is_word = body.input(f"is_word_{suffix}", "bool", ["rows", 1])
    new = inner.cell_step(cell, projected, None, old)
    new = [body.op("Where", is_word, one, other) for one, other in zip(new, old, strict=True)]
    for field, value in zip((*fields, "step_output"), (*new, new[0]), strict=True):
        body.output(value, f"next_{field}_{suffix}", "float32", ["rows", size])
    rows = graph.op("Slice", graph.op("Shape", mask), graph.axes(1), graph.axes(2))
    shape = graph.op("Concat", rows, graph.axes(size), axis=0)
    zeros = graph.op("Expand", graph.constant(np.zeros([1, 1], np.float32), "zeros"), shape)
    *state, outputs = graph.ops(
        "Scan",
        *[zeros] * len(fields),
        layers.project_inputs(cell, inputs),
        mask,
        count=len(fields) + 1,
        body=body.body(),
        num_scan_inputs=2,
        scan_input_directions=[int(backward)] * 2,
        scan_output_directions=[int(backward)],
    )
    return state, outputs


def _by_layer(decoder: Decoder, state: State) -> list[State]:
    """The parts of a decoder's state, layer by layer, without h̃."""
    count = len(state_fields(decoder.cells[0]))
    return [state[count * layer : count * (layer + 1)] for layer in range(len(decoder.cells))]


def _step_cells(
    layers: Layers, decoder: Decoder, projected: Value, step_input: Value | None, states: list[State]
) -> list[State]:
    """See :meth:`Decoder.step_cells`."""
    first, *upper = decoder.cells
    new_states = [layers.cell_step(first, projected, step_input, states[0])]
    for cell, state in zip(upper, states[1:], strict=True):
        below = new_states[-1][0]
        new_states.append(layers.cell_step(cell, layers.project_inputs(cell, None), below, state))
    return new_states
