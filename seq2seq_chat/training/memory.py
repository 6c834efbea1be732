"""Estimate how much memory training needs, before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from seq2seq_chat.config import Model, Training
from seq2seq_chat.model.language_model import abstract_language_model
from seq2seq_chat.model.matrix_copies import uses_padding
from seq2seq_chat.model.seq2seq import abstract_model
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.training.optimizers import slots_per_parameter
from seq2seq_chat.training.text_loss import truncation

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
    model: Model,
    training: Training,
    vocabulary_size: int,
    source_vocabulary_size: int | None = None,
    *,
    devices: int = 1,
    replicas_in_memory: int = 1,
) -> MemoryEstimate:
    """Estimate the peak resident memory of training from shapes alone.

    Args:
        model: the architecture.
        training: batch size, optimizer and softmax.
        vocabulary_size: words of the target.
        source_vocabulary_size: words of the source; None: the vocabulary of the target.
        devices: number of devices that share a batch.
        replicas_in_memory: how many of them share one memory.
    """
    sizes = (vocabulary_size, source_vocabulary_size)
    variables = _Variables.of(abstract_model(model, *sizes).trainable_variables, sizes)
    batch = training.batch_size // devices
    source_tokens, target_tokens = batch * model.encoder_steps, batch * model.decoder_steps
    directions = 2 if model.bidirectional else 1
    activations = model.layers * _cell_activations(model) * (directions * source_tokens + target_tokens)
    if model.attention != "none":
        activations += target_tokens * (model.encoder_steps + 8) * model.hidden_size
    activations += _output_activations(model, training, vocabulary_size, target_tokens)
    return _estimate(model, training, variables, activations, replicas_in_memory)


def estimate_text_memory(model: Model, training: Training, vocabulary_size: int) -> MemoryEstimate:
    """Estimate the peak resident memory of training a language model from shapes alone."""
    variables = _Variables.of(abstract_language_model(model, vocabulary_size).trainable_variables, (vocabulary_size,))
    steps = truncation(training)
    activations = model.layers * _cell_activations(model) * training.batch_size * steps.steps
    predicted = training.batch_size * (steps.steps - steps.first_loss)
    activations += _output_activations(model, training, vocabulary_size, predicted)
    return _estimate(model, training, variables, activations)


class _Variables(NamedTuple):
    """Numbers of parameters."""

    parameters: int
    tables: int  # of those with a row for each word
    vocabulary_size: int

    @classmethod
    def of(cls, variables: Sequence[tf.Variable], sizes: Sequence[int | None]) -> _Variables:
        counts = [(variable.shape[0], variable.shape.num_elements()) for variable in variables]
        return cls(sum(count for _, count in counts), sum(n for rows, n in counts if rows in sizes), sizes[0] or 0)


def _has_full_softmax(training: Training, vocabulary_size: int) -> bool:
    return training.sampled_softmax is None or training.sampled_softmax >= vocabulary_size


def _cell_activations(model: Model) -> int:
    """Numbers for a token: gates before and after their activation functions, states, and the gradients of both."""
    return 22 * model.hidden_size


def _output_activations(model: Model, training: Training, vocabulary_size: int, tokens: int) -> int:
    """Numbers for the output layer."""
    output_size = model.projection_size or model.hidden_size
    count = 6 * tokens * output_size if model.output == "maxout" else 0  # both halves, and their gradients
    if _has_full_softmax(training, vocabulary_size):
        return count + tokens * 3 * vocabulary_size
    return count + tokens * (6 * (training.sampled_softmax or 0) + 4 * output_size)


def _estimate(
    model: Model, training: Training, variables: _Variables, activations: int, replicas_in_memory: int = 1
) -> MemoryEstimate:
    # weights outside the tables: a gradient and transposed and padded copies each; tables: sparse, or dense with a full
    # softmax
    copies = 2 if uses_padding() else 1
    gradients = (1 + copies) * (variables.parameters - variables.tables)
    if _has_full_softmax(training, variables.vocabulary_size):
        gradients += variables.vocabulary_size * (model.projection_size or model.hidden_size)
    number_size = replicas_in_memory * FLOAT32_BYTES
    return MemoryEstimate(
        parameters=number_size * variables.parameters,
        optimizer=number_size * variables.parameters * slots_per_parameter(training),
        gradients=number_size * gradients,
        activations=number_size * activations * ALLOCATOR_OVERHEAD,
        process=PROCESS_BYTES,
    )


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
