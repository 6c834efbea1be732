"""What a model consists of: names and shapes of its variables, sizes of its layers, and the memory of its training."""

from __future__ import annotations

import math
from typing import NamedTuple

from seq2seq_chat.config import Config, Model, Training
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import gpu_names, uses_avx2_kernels

Shape = tuple[int, ...]
Shapes = dict[str, Shape]

SHARED, SOURCE, TARGET = "embedding/shared", "embedding/source", "embedding/target"
WORD_VARIABLES = (SHARED, SOURCE, TARGET, "output/words", "output/bias")
"""Variables with a row for each word: of the source for ``SOURCE``, of the target for the others."""


def variable_shapes(config: Config, vocabulary_size: int, source_vocabulary_size: int | None = None) -> Shapes:
    """The shape of each variable by its name, as ``encoder/layer0/bias``.

    Args:
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
            inputs = encoder_output_size(config) if layer else config.embedding_size
            shapes |= _cell(f"{name}{direction}", config, inputs)
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
        shapes |= {"decoder/combine/context": (context, hidden), "decoder/combine/output": (hidden, hidden)}
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


SLOTS = {"adagrad": 1, "adadelta": 2, "adam": 2, "rmsprop": 1, "sgd": 0}
"""Number of variables that an optimizer keeps for each variable of the model, without momentum."""

FLOAT32_BYTES = 4
PROCESS_BYTES = 450e6  # of Python, TensorFlow and its graph, measured with an empty model
ALLOCATOR_OVERHEAD = 1.25  # memory held by the allocator per memory in use, measured at three sizes


class InsufficientMemory(UserError):
    """Training does not fit into memory; the message says what to make smaller."""


class MemoryEstimate(NamedTuple):
    """Bytes, by purpose."""

    parameters: float
    optimizer: float
    gradients: float
    activations: float
    process: float

    @property
    def total(self) -> float:
        """All bytes."""
        return sum(self)

    def describe(self) -> str:
        """parameters 1.9 GB, optimizer 1.9 GB, …"""
        names = ("parameters", "optimizer", "gradients", "activations", "program")
        return ", ".join(f"{name} {gigabytes(size)}" for name, size in zip(names, self, strict=True))


def estimate_memory(
    config: Config,
    vocabulary_size: int,
    source_vocabulary_size: int | None = None,
    *,
    devices: int = 1,
    replicas_in_memory: int = 1,
) -> MemoryEstimate:
    """Estimate the peak resident memory of training from shapes alone.

    Args:
        vocabulary_size: Number of words of the target.
        source_vocabulary_size: Number of words of the source; None: the vocabulary of the target.
        devices: Number of devices that share a batch.
        replicas_in_memory: How many of them share one memory.
    """
    model, training = config.model, config.training
    # gates of all layers before and after their activation functions, states, and the gradients of both
    of_token = 22 * model.layers * model.hidden_size
    shapes = variable_shapes(config, vocabulary_size, source_vocabulary_size)
    batch = training.batch_size // devices
    if config.task == "language_model":
        steps = training.truncation
        read, predicted = batch * steps.steps, batch * (steps.steps - steps.first_loss)
        activations = of_token * read
    else:
        directions = 2 if model.bidirectional else 1
        source_tokens, predicted = batch * model.encoder_steps, batch * model.decoder_steps
        activations = of_token * (directions * source_tokens + predicted)
        if model.attention != "none":
            activations += predicted * (model.encoder_steps + 8) * model.hidden_size
    activations += _output_activations(model, training, vocabulary_size, predicted)
    parameters = sum(map(math.prod, shapes.values()))
    tables = sum(math.prod(shape) for name, shape in shapes.items() if name in WORD_VARIABLES)
    # weights outside the tables: a gradient and transposed and padded copies each; tables: sparse, or dense with a full
    # softmax
    copies = 2 if uses_avx2_kernels() and not gpu_names() else 1
    gradients = (1 + copies) * (parameters - tables)
    if _has_full_softmax(training, vocabulary_size):
        gradients += vocabulary_size * (model.projection_size or decoder_output_size(model))
    number_size = replicas_in_memory * FLOAT32_BYTES
    return MemoryEstimate(
        parameters=number_size * parameters,
        optimizer=number_size * parameters * slots_per_parameter(training),
        gradients=number_size * gradients,
        activations=number_size * activations * ALLOCATOR_OVERHEAD,
        process=PROCESS_BYTES,
    )


def slots_per_parameter(settings: Training) -> int:
    """Number of variables that the optimizer keeps for each variable of the model."""
    return SLOTS[settings.optimizer] + (1 if settings.momentum else 0)


def _has_full_softmax(training: Training, vocabulary_size: int) -> bool:
    return training.sampled_softmax is None or training.sampled_softmax >= vocabulary_size


def _output_activations(model: Model, training: Training, vocabulary_size: int, tokens: int) -> int:
    """Numbers for the output layer."""
    output_size = model.projection_size or decoder_output_size(model)
    count = 6 * tokens * output_size if model.output == "maxout" else 0  # both halves, and their gradients
    if _has_full_softmax(training, vocabulary_size):
        return count + tokens * (4 if training.label_smoothing else 3) * vocabulary_size
    sampled = training.sampled_softmax or 0
    if training.sampled_softmax_per == "decoder_step":
        count += 2 * model.decoder_steps * sampled * output_size  # their vectors, and the gradients of these
    return count + tokens * (6 * sampled + 4 * output_size)


def ensure_memory(estimate: MemoryEstimate, available: float) -> None:
    """Raise InsufficientMemory if training needs more than the available memory."""
    if estimate.total <= available:
        return
    if estimate.activations > estimate.parameters + estimate.optimizer:
        remedy = "lower training.batch_size, model.encoder_steps and model.decoder_steps, or model.hidden_size"
    else:
        remedy = "lower data.vocabulary_size, model.hidden_size or model.projection_size"
    raise InsufficientMemory(
        f"training needs about {gigabytes(estimate.total)}, but only {gigabytes(available)} is available; {remedy}"
    )


def gigabytes(size: float) -> str:
    """1.9e9 → "1.9 GB", 2.5e6 → "3 MB"."""
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"
