"""Names and shapes of all variables of a model."""

from __future__ import annotations

import math
from typing import NamedTuple

from seq2seq_chat.config import Config, Model

Shape = tuple[int, ...]
Shapes = dict[str, Shape]

SHARED, SOURCE, TARGET = "embedding/shared", "embedding/source", "embedding/target"
WORD_VARIABLES = (SHARED, SOURCE, TARGET, "output/words", "output/bias")
"""Variables with a row for each word: of the source for ``SOURCE``, of the target for the others."""


def variable_shapes(config: Config, vocabulary_size: int, source_vocabulary_size: int | None = None) -> Shapes:
    """The shape of each variable by its name, as ``encoder/layer0/bias``.

    Args:
        config: The experiment.
        vocabulary_size: Number of words of the target.
        source_vocabulary_size: Number of words of the source; None: the vocabulary of the target.
    """
    model, size = config.model, config.model.embedding_size
    shapes = _decoder(model) | ({} if config.task == "language_model" else _encoder(model))
    width = model.projection_size or decoder_output_size(model)
    shapes["output/bias"] = (vocabulary_size,)
    if not model.tie_embeddings:
        shapes["output/words"] = (vocabulary_size, width)
    if model.projection_size is not None and model.output != "maxout":
        shapes["output/projection"] = (decoder_output_size(model), width)
    if model.shared_embeddings:
        return shapes | {SHARED: (vocabulary_size, size)}
    if config.task != "language_model":
        shapes[SOURCE] = (source_vocabulary_size or vocabulary_size, size)
    return shapes | {TARGET: (vocabulary_size, size)}


def parameter_counts(config: Config, vocabulary_size: int, source_vocabulary_size: int | None = None) -> dict[str, int]:
    """The number of parameters of each component, e.g. {"encoder": 41943040, …}; see :func:`variable_shapes`."""
    counts: dict[str, int] = {}
    for name, shape in variable_shapes(config, vocabulary_size, source_vocabulary_size).items():
        component = name.split("/")[0]
        counts[component] = counts.get(component, 0) + math.prod(shape)
    return counts


def _encoder(config: Model) -> Shapes:
    hidden = config.hidden_size
    shapes: Shapes = {}
    directions = ("", "/backward") if config.bidirectional else ("",)
    for layer in range(config.layers):
        name = f"encoder/layer{layer}"
        for direction in directions:
            shapes |= _cell(
                f"{name}{direction}", config, encoder_output_size(config) if layer else config.embedding_size
            )
        for field in CELL_LAYOUTS[config.cell].state if config.bidirectional else ():
            shapes[f"{name}/bridge/{field}"] = ((1 if config.bridge == "backward" else 2) * hidden, hidden)
            shapes[f"{name}/bridge/{field}/bias"] = (hidden,)
    return shapes


def _decoder(config: Model) -> Shapes:
    hidden, values = config.hidden_size, encoder_output_size(config)
    shapes = _cell("decoder/layer0", config, config.embedding_size, step_input_size(config))
    for layer in range(1, config.layers):
        shapes |= _cell(f"decoder/layer{layer}", config, 0, hidden)
    if config.attention != "none":
        sizes: Shapes = {"key": (values, hidden), "query": (hidden, hidden), "score": (hidden,)}
        shapes |= {f"decoder/attention/{name}": sizes[name] for name in ATTENTION_VARIABLES[config.attention]}
    if config.context == "every_step":
        shapes["decoder/layer0/thought"] = (hidden, CELL_LAYOUTS[config.cell].gates * hidden)
    context = context_size(config)
    if config.output == "maxout":
        units = 2 * decoder_output_size(config)
        parts = {"context": context, "output": hidden, "words": config.embedding_size}
        shapes |= {f"decoder/maxout/{name}": (inputs, units) for name, inputs in parts.items() if inputs}
    elif config.attention != "none" and config.output == "attentional":
        shapes |= {
            f"decoder/combine/{name}": (inputs, hidden) for name, inputs in (("context", context), ("output", hidden))
        }
    return shapes


def _cell(name: str, config: Model, inputs: int, step_inputs: int = 0) -> Shapes:
    """Variables of a cell.

    Args:
        inputs: Units of the input that is known before the loop; 0 for none.
        step_inputs: Units of the input that becomes known inside the loop; 0 for none.
    """
    hidden, layout = config.hidden_size, CELL_LAYOUTS[config.cell]
    shapes: Shapes = {f"{name}/input": (inputs, layout.gates * hidden)} if inputs else {}
    shapes[f"{name}/bias"] = (layout.gates * hidden,)
    return shapes | {f"{name}/{field}": (step_inputs + hidden, n * hidden) for field, n in layout.recurrent.items()}


FORGET_BIAS = 1.0  # initial bias of an LSTM's forget gate
MASK_VALUE = -1e9  # added to masked scores, or in place of masked logits: exp() turns it into zero


class CellLayout(NamedTuple):
    """The blocks of units of a cell's matrices, and its state."""

    gates: int  # number of gates, including the candidate
    state: tuple[str, ...]  # names of the parts of the state, the output first
    recurrent: dict[str, int]  # the matrices applied to the state, and the number of gates of each


CELL_LAYOUTS = {
    "lstm": CellLayout(4, ("output", "memory"), {"recurrent": 4}),
    "gru": CellLayout(3, ("output",), {"recurrent": 2, "candidate": 1}),
    "rnn": CellLayout(1, ("output",), {"recurrent": 1}),
}
ATTENTION_VARIABLES: dict[str, tuple[str, ...]] = {
    "additive": ("key", "query", "score"),
    "concat": ("key", "query", "score"),
    "dot": (),
    "general": ("key",),
}


def encoder_output_size(config: Model) -> int:
    """Units of the encoder's outputs, which are the outputs of both directions if it is bidirectional."""
    return config.hidden_size * (2 if config.bidirectional else 1)


def decoder_output_size(config: Model) -> int:
    """Units of the decoder's outputs h̃."""
    if config.output == "maxout":
        return config.projection_size or config.hidden_size
    return config.hidden_size + (encoder_output_size(config) if config.output == "concatenated" else 0)


def queries_previous(config: Model) -> bool:
    """Whether attention is computed from the decoder's previous state, so that the context enters the cell."""
    return config.attention != "none" and config.attention_query == "previous"


def feeds_output(config: Model) -> bool:
    """Whether the cell reads the decoder's previous output h̃."""
    return config.attention != "none" and config.input_feeding and not queries_previous(config)


def step_input_size(config: Model) -> int:
    """Units of what the decoder's first layer reads besides the word: the context, h̃, or nothing."""
    if queries_previous(config):
        return encoder_output_size(config)
    return decoder_output_size(config) if feeds_output(config) else 0


def context_size(config: Model) -> int:
    """Units of the vector that is combined with the decoder's state: the context, the thought vector, or nothing."""
    if config.attention != "none":
        return encoder_output_size(config)
    return config.hidden_size if config.output == "maxout" and config.context == "every_step" else 0
