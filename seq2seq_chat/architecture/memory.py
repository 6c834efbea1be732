"""Estimate how much memory training needs, before it starts."""

from __future__ import annotations

import math
from typing import NamedTuple

from seq2seq_chat.architecture.variables import WORD_VARIABLES, decoder_output_size, variable_shapes
from seq2seq_chat.config import Config, Model, Training
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import gpu_names, uses_avx2_kernels

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
        config: The experiment.
        vocabulary_size: Number of words of the target.
        source_vocabulary_size: Number of words of the source; None: the vocabulary of the target.
        devices: Number of devices that share a batch.
        replicas_in_memory: How many of them share one memory.
    """
    model, training = config.model, config.training
    shapes = variable_shapes(config, vocabulary_size, source_vocabulary_size)
    batch = training.batch_size // devices
    if config.task == "language_model":
        steps = training.truncation
        read, predicted = batch * steps.steps, batch * (steps.steps - steps.first_loss)
        activations = model.layers * _cell_activations(model) * read
    else:
        directions = 2 if model.bidirectional else 1
        source_tokens, predicted = batch * model.encoder_steps, batch * model.decoder_steps
        activations = model.layers * _cell_activations(model) * (directions * source_tokens + predicted)
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
        gradients += vocabulary_size * (model.projection_size or model.hidden_size)
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


def _cell_activations(model: Model) -> int:
    """Numbers for a token: gates before and after their activation functions, states, and the gradients of both."""
    return 22 * model.hidden_size


def _output_activations(model: Model, training: Training, vocabulary_size: int, tokens: int) -> int:
    """Numbers for the output layer."""
    output_size = model.projection_size or decoder_output_size(model)
    count = 6 * tokens * output_size if model.output == "maxout" else 0  # both halves, and their gradients
    if _has_full_softmax(training, vocabulary_size):
        return count + tokens * 3 * vocabulary_size
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
