"""The ONNX graphs of a model: its encoder, and one step of its decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from seq2seq_chat.architecture.variables import (
    CELL_LAYOUTS,
    MASK_VALUE,
    SOURCE,
    TARGET,
    decoder_output_size,
    encoder_output_size,
    feeds_output,
    queries_previous,
)
from seq2seq_chat.config import Config, Model
from seq2seq_chat.engines.onnx.layers import (
    OPSET,
    Int8Weights,
    Layers,
    OnnxGraph,
    State,
    Value,
    WeightFormat,
    missing_layer,
)
from seq2seq_chat.engines.onnx.manifest import ENCODER_FILE, STEP_FILE
from seq2seq_chat.system.errors import UserError

FORMATS: dict[str | None, type[WeightFormat]] = {None: WeightFormat, "int8": Int8Weights}
"""How weights are stored, by the value of --quantize."""


def model_graphs(
    config: Config, arrays: Mapping[str, np.ndarray], quantize: str | None = None, has_top_k: bool = False
) -> dict[str, onnx.ModelProto]:
    """The graphs of a model, given its variables by name, by the names of their files; see :func:`decoder_graph`.

    Raises:
        UserError: A layer of the model cannot be written as ONNX operators.
    """
    if layer := missing_layer(config.model):
        raise UserError(f"ONNX graphs do not support {layer}; use --format saved_model")
    model = (config.model, arrays, FORMATS[quantize]())
    encoder = {} if config.task == "language_model" else {ENCODER_FILE: encoder_graph(*model)}
    return encoder | {STEP_FILE: decoder_graph(*model, has_top_k=has_top_k)}


def describe_graphs(config: Config, step: int) -> dict[str, Any]:
    """What ``model.json`` says about the inputs and outputs of the graphs of a model after some training steps."""
    state, memory = state_tensors(config.model), memory_tensors(config.model)
    return {
        "step": step,
        "opset": OPSET,
        "task": config.task,
        "state": [*state],
        "state_sizes": [shape[-1] for shape in state.values()],
        "memory": [*memory],
    }


Tensors = dict[str, tuple[int | str, ...]]
"""Tensors that go from one graph, or step, to the next, [rows, …]: the shapes of their rows by name."""


def state_tensors(config: Model) -> Tensors:
    """The state of a decoder, layer by layer."""
    tensors: Tensors = {
        f"layer{layer}_{field}": (config.hidden_size,)
        for layer in range(config.layers)
        for field in CELL_LAYOUTS[config.cell].state
    }
    return tensors | ({"attentional": (decoder_output_size(config),)} if feeds_output(config) else {})


def memory_tensors(config: Model) -> Tensors:
    """What every step of a decoder reads; see :class:`DecoderMemory`."""
    tensors: Tensors = {}
    maxout = 2 * decoder_output_size(config)
    if config.attention != "none":
        outputs = encoder_output_size(config)
        combined = maxout if config.output == "maxout" else config.hidden_size
        values = outputs if queries_previous(config) or config.output == "concatenated" else combined
        keys = outputs if config.attention == "dot" else config.hidden_size
        tensors |= {"values": ("steps", values), "keys": ("steps", keys), "mask": ("steps",)}
    if config.context == "every_step":
        tensors["thought_cell"] = (CELL_LAYOUTS[config.cell].gates * config.hidden_size,)
        if config.output == "maxout" and config.attention == "none":
            tensors["thought_maxout"] = (maxout,)
    return tensors


def _add_outputs(graph: OnnxGraph, tensors: Tensors, values: list[Value], prefix: str = "") -> None:
    """Add tensors to the outputs of a graph."""
    for (name, shape), value in zip(tensors.items(), values, strict=True):
        graph.output(value, f"{prefix}{name}", "float32", ["rows", *shape])


def encoder_graph(config: Model, arrays: Mapping[str, np.ndarray], weights: WeightFormat) -> onnx.ModelProto:
    """Source ids and lengths → the decoder's state before the first word, and its memory.

    Args:
        arrays: The variables by name.
        weights: How matrices are stored.
    """
    graph = OnnxGraph("encoder")
    layers, tensors = Layers(graph, weights, config, arrays), memory_tensors(config)
    source = graph.input("source", "int32", ["rows", "steps"])
    lengths = graph.input("lengths", "int32", ["rows"])
    mask = _word_mask(graph, source, lengths)
    vectors = layers.embed(SOURCE, graph.op("Transpose", source, perm=[1, 0]))
    outputs, states = _encode(layers, vectors, mask)
    state = [part for layer in states for part in layer]
    if feeds_output(config):
        size = graph.axes(decoder_output_size(config))
        shape = graph.op("Concat", graph.op("Shape", lengths), size, axis=0)
        state.append(graph.op("Expand", graph.constant(np.zeros([1, 1], np.float32), "zeros"), shape))
    memory: list[Value] = []
    context = f"{layers.combination}/context"
    if config.attention != "none":
        outputs = graph.op("Transpose", outputs, perm=[1, 0, 2])
        values = layers.weight(context, outputs) if context in arrays and not queries_previous(config) else outputs
        is_word = graph.op("Transpose", graph.op("Squeeze", mask, graph.axes(2)), perm=[1, 0])
        penalties = [graph.constant(np.array(value, np.float32)) for value in (0.0, MASK_VALUE)]
        memory += [values, layers.attention_keys(outputs), graph.op("Where", is_word, *penalties)]
    if config.context == "every_step":
        vector = states[-1][0]
        memory.append(layers.weight("decoder/layer0/thought", vector))
        if "thought_maxout" in tensors:
            memory.append(layers.weight(context, vector))
    _add_outputs(graph, state_tensors(config) | tensors, state + memory)
    return graph.model()


def decoder_graph(
    config: Model, arrays: Mapping[str, np.ndarray], weights: WeightFormat, has_top_k: bool = False
) -> onnx.ModelProto:
    """Previous words, state and memory → logits, their normalizer, next state and attention; see :func:`encoder_graph`.

    A language model is a decoder without an encoder. With ``has_top_k``, the graph also reads k, and returns the logits
    and ids of the k most probable words, of equally probable ones those with lower ids first.
    """
    graph = OnnxGraph("decoder_step")
    layers = Layers(graph, weights, config, arrays)
    words = graph.input("words", "int32", ["rows"])
    tensors = state_tensors(config)
    state = [graph.input(name, "float32", ["rows", *shape]) for name, shape in tensors.items()]
    memory = {name: graph.input(name, "float32", ["rows", *shape]) for name, shape in memory_tensors(config).items()}
    attended = [memory[name] for name in ("values", "keys", "mask") if name in memory]
    parts = len(CELL_LAYOUTS[config.cell].state)
    cell_states = [state[parts * layer : parts * (layer + 1)] for layer in range(config.layers)]

    vectors = layers.embed(TARGET, words)
    projected = layers.project_inputs("decoder/layer0", vectors)
    maxout = layers.weight("decoder/maxout/words", vectors) if config.output == "maxout" else None
    if "thought_cell" in memory:
        projected = graph.op("Add", projected, memory["thought_cell"])
    if "thought_maxout" in memory and maxout is not None:
        maxout = graph.op("Add", maxout, memory["thought_maxout"])

    step_input = state[-1] if feeds_output(config) else None
    context = attention = None
    if queries_previous(config):
        context, attention = layers.attend(attended, layers.top_output(cell_states))
        step_input = context
    next_states = [layers.cell_step("decoder/layer0", projected, step_input, cell_states[0])]
    for layer, old in enumerate(cell_states[1:], start=1):
        cell, below = f"decoder/layer{layer}", layers.top_output(next_states)
        next_states.append(layers.cell_step(cell, layers.project_inputs(cell, None), below, old))
    output = layers.top_output(next_states)
    if attended and not queries_previous(config):
        context, attention = layers.attend(attended, output)
    hidden = layers.combine(output, context, maxout)

    logits = layers.logits(hidden)
    graph.output(logits, "logits", "float32", ["rows", len(arrays["output/bias"])])
    graph.output(_log_normalizer(graph, logits), "normalizer", "float32", ["rows"])
    if has_top_k:
        top_logits, top_words = graph.ops("TopK", logits, graph.input("k", "int64", [1]), count=2)
        graph.output(top_logits, "top_logits", "float32", ["rows", "k"])
        graph.output(top_words, "top_words", "int64", ["rows", "k"])
    next_state = [part for layer in next_states for part in layer] + ([hidden] if feeds_output(config) else [])
    _add_outputs(graph, tensors, next_state, "next_")
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


def _encode(layers: Layers, vectors: Value, mask: Value) -> tuple[Value, list[State]]:
    """The outputs of the top layer, [steps, rows, units], and the decoder's initial state of each layer."""
    outputs, states = vectors, []
    for layer in range(layers.config.layers):
        cell = f"encoder/layer{layer}"
        state, forward = _run_cell(layers, cell, outputs, mask)
        if layers.config.bidirectional:
            backward_state, backward = _run_cell(layers, f"{cell}/backward", outputs, mask, backward=True)
            state = _bridge(layers, f"{cell}/bridge", state, backward_state)
            forward = layers.graph.concat([forward, backward])
        outputs = layers.graph.op("Add", forward, outputs) if layers.config.residual and layer else forward
        states.append(state)
    return outputs, states


def _bridge(layers: Layers, bridge: str, forward: State, backward: State) -> State:
    """See :class:`Bridge`."""
    graph, parts = layers.graph, backward
    if layers.config.bridge == "both":
        parts = [graph.concat(both) for both in zip(forward, backward, strict=True)]
    combined = [
        graph.op("Add", layers.weight(f"{bridge}/{field}", part), layers.variable(f"{bridge}/{field}/bias"))
        for field, part in zip(CELL_LAYOUTS[layers.config.cell].state, parts, strict=True)
    ]
    return [graph.op("Tanh", combined[0]), *combined[1:]]


def _run_cell(layers: Layers, cell: str, inputs: Value, mask: Value, backward: bool = False) -> tuple[State, Value]:
    """Run a cell over all steps: its final state, and its outputs, [steps, rows, hidden]. Padding changes no state."""
    graph, size, (gates, fields, _) = layers.graph, layers.config.hidden_size, CELL_LAYOUTS[layers.config.cell]
    body = OnnxGraph(f"steps of {cell}", graph)
    inner = layers._replace(graph=body)
    suffix = graph.unique("step")
    old = [body.input(f"{field}_{suffix}", "float32", ["rows", size]) for field in fields]
    projected = body.input(f"projected_{suffix}", "float32", ["rows", gates * size])
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
