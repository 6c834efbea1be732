"""Names and shapes of all variables of a model."""

from __future__ import annotations

import math

from seq2seq_chat.architecture.layers import (
    ATTENTION_VARIABLES,
    CELL_LAYOUTS,
    context_size,
    decoder_output_size,
    encoder_output_size,
    step_input_size,
)
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
    width = model.projection_size or model.hidden_size
    shapes["output/bias"] = (vocabulary_size,)
    if not model.tie_embeddings:
        shapes["output/words"] = (vocabulary_size, width)
    if model.projection_size is not None and model.output != "maxout":
        shapes["output/projection"] = (model.hidden_size, width)
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
    elif config.attention != "none":
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
