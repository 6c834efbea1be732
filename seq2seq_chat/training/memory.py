"""Estimates the memory of a training before it starts."""

from __future__ import annotations

from typing import NamedTuple

from seq2seq_chat.config import Model, Training
from seq2seq_chat.model.seq2seq import abstract_model
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.training.optimizers import slots_per_parameter

FLOAT = 4  # bytes
PROCESS = 450e6  # bytes of Python, TensorFlow and its graph, measured with an empty model
FREED_LATE = 1.25  # what the allocator holds relative to what is used, measured at three sizes


class DoesNotFit(UserError):
    """A training that does not fit into memory; the message says what to make smaller."""


class MemoryEstimate(NamedTuple):
    """Bytes, by purpose."""

    parameters: float
    optimizer: float
    gradients: float
    activations: float
    process: float

    @property
    def total(self) -> float:
        """Bytes in total."""
        return sum(self)

    def describe(self) -> str:
        """parameters 1.9 GB, optimizer 1.9 GB, …"""
        names = ("parameters", "optimizer", "gradients", "activations", "program")
        return ", ".join(f"{name} {gigabytes(size)}" for name, size in zip(names, self, strict=True))


def estimate_memory(
    model: Model, training: Training, vocabulary_size: int, devices: int = 1, replicas_in_memory: int = 1
) -> MemoryEstimate:
    """Estimate the peak resident memory of a training from shapes alone.

    Args:
        model: the architecture.
        training: batch size, optimizer and softmax.
        vocabulary_size: words of the model.
        devices: number of devices that share a batch.
        replicas_in_memory: how many of them use the same memory.
    """
    variables = abstract_model(model, vocabulary_size).trainable_variables
    parameters = sum(variable.shape.num_elements() for variable in variables)
    tables = sum(v.shape.num_elements() for v in variables if v.shape[0] == vocabulary_size)
    sampled = training.sampled_softmax
    full_softmax = sampled is None or sampled >= vocabulary_size
    hidden, width = model.hidden_size, model.projection_size or model.hidden_size
    batch = training.batch_size // devices

    # weights outside the tables: one gradient and one transposed copy each; tables: rows, or all of the softmax's
    gradients = 2 * (parameters - tables) + (vocabulary_size * width if full_softmax else 0)
    source_tokens, target_tokens = batch * model.encoder_steps, batch * model.decoder_steps
    cell = 22 * hidden  # gates before and after their functions, states, and their gradients
    directions = 2 if model.bidirectional else 1
    activations = model.layers * cell * (directions * source_tokens + target_tokens)
    if model.attention != "none":
        activations += target_tokens * model.encoder_steps * hidden + 8 * target_tokens * hidden
    activations += target_tokens * (3 * vocabulary_size if full_softmax else 6 * (sampled or 0) + 4 * width)
    return MemoryEstimate(
        parameters=replicas_in_memory * FLOAT * parameters,
        optimizer=replicas_in_memory * FLOAT * parameters * slots_per_parameter(training),
        gradients=replicas_in_memory * FLOAT * gradients,
        activations=replicas_in_memory * FLOAT * activations * FREED_LATE,
        process=PROCESS,
    )


def ensure_memory(estimate: MemoryEstimate, available: float) -> None:
    """Raise DoesNotFit if a training needs more than the available memory."""
    if estimate.total <= available:
        return
    if estimate.activations > estimate.parameters + estimate.optimizer:
        remedy = "lower training.batch_size, model.encoder_steps and model.decoder_steps, or model.hidden_size"
    else:
        remedy = "lower data.vocabulary_size, model.hidden_size or model.projection_size"
    raise DoesNotFit(
        f"this training needs about {gigabytes(estimate.total)}, but only {gigabytes(available)} are free; {remedy}"
    )


def gigabytes(size: float) -> str:
    """1.9e9 → "1.9 GB", 2.5e6 → "3 MB"."""
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"
