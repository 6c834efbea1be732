"""Estimate how much memory training needs, before it starts."""

from __future__ import annotations

from typing import NamedTuple

from seq2seq_chat.config import Model, Training
from seq2seq_chat.model.seq2seq import abstract_model
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.training.optimizers import slots_per_parameter

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
    variables = abstract_model(model, vocabulary_size, source_vocabulary_size).trainable_variables
    parameters = sum(variable.shape.num_elements() for variable in variables)
    sizes = (vocabulary_size, source_vocabulary_size)
    tables = sum(v.shape.num_elements() for v in variables if v.shape[0] in sizes)
    sampled = training.sampled_softmax
    full_softmax = sampled is None or sampled >= vocabulary_size
    hidden, output_size = model.hidden_size, model.projection_size or model.hidden_size
    batch = training.batch_size // devices

    # weights outside the tables: a gradient and a transposed copy each; tables: sparse, or dense with a full softmax
    gradients = 2 * (parameters - tables) + (vocabulary_size * output_size if full_softmax else 0)
    source_tokens, target_tokens = batch * model.encoder_steps, batch * model.decoder_steps
    cell = 22 * hidden  # gates before and after their activation functions, states, and the gradients of both
    directions = 2 if model.bidirectional else 1
    activations = model.layers * cell * (directions * source_tokens + target_tokens)
    if model.attention != "none":
        activations += target_tokens * model.encoder_steps * hidden + 8 * target_tokens * hidden
    if model.output == "maxout":
        activations += 6 * target_tokens * output_size  # both halves before and after, and their gradients
    activations += target_tokens * (3 * vocabulary_size if full_softmax else 6 * (sampled or 0) + 4 * output_size)
    number_size = replicas_in_memory * FLOAT32_BYTES
    return MemoryEstimate(
        parameters=number_size * parameters,
        optimizer=number_size * parameters * slots_per_parameter(training),
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
