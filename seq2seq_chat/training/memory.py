"""How much memory a training needs, before it starts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple, Optional

import tensorflow as tf

from seq2seq_chat.config import Config
from seq2seq_chat.errors import UserError
from seq2seq_chat.model.seq2seq import outline
from seq2seq_chat.training.optimizers import slots_per_parameter

FLOAT = 4  # bytes
PROCESS = 450e6  # Python, TensorFlow and its graph: bytes, measured with an empty model
FREED_LATE = 1.25  # what the allocator holds beyond what is used, measured at three sizes

CONTAINER = (  # folder, limit, what is used, and how much of that is a cache of files that yields to programs
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


class DoesNotFit(UserError):
    """A training that cannot fit; the message says what to make smaller."""


class MemoryEstimate(NamedTuple):
    """Bytes, by what needs them."""

    parameters: float
    optimizer: float
    gradients: float
    activations: float
    process: float

    @property
    def total(self) -> float:
        """Bytes of all together."""
        return sum(self)


def estimate_memory(config: Config, vocabulary: int, devices: int = 1, together: int = 1) -> MemoryEstimate:
    """Estimate the peak of a training's resident memory from shapes alone.

    Args:
        config: the experiment.
        vocabulary: words of the model.
        devices: how many share a batch.
        together: how many of them use the same memory.
    """
    m, model = config.model, outline(config.model, vocabulary)
    parameters = sum(v.shape.num_elements() for v in model.trainable_variables)
    tables = sum(v.shape.num_elements() for v in model.trainable_variables if v.shape[0] == vocabulary)
    sampled = config.training.sampled_softmax
    full_softmax = sampled is None or sampled >= vocabulary
    batch, hidden, width = config.training.batch_size // devices, m.hidden_size, m.projection_size or m.hidden_size

    # weights outside the tables: one gradient and one transposed copy each; tables: rows, or all of the softmax's
    gradients = 2 * (parameters - tables) + (vocabulary * width if full_softmax else 0)
    source_tokens, target_tokens = batch * m.encoder_steps, batch * m.decoder_steps
    cell = 22 * hidden  # gates before and after their functions, states, and their gradients
    directions = 2 if m.bidirectional else 1
    activations = m.layers * cell * (directions * source_tokens + target_tokens)
    if m.attention != "none":
        activations += target_tokens * m.encoder_steps * hidden + 8 * target_tokens * hidden
    activations += target_tokens * (3 * vocabulary if full_softmax else 6 * (sampled or 0) + 4 * width)
    return MemoryEstimate(
        parameters=together * FLOAT * parameters,
        optimizer=together * FLOAT * parameters * slots_per_parameter(config.training),
        gradients=together * FLOAT * gradients,
        activations=together * FLOAT * activations * FREED_LATE,
        process=PROCESS,
    )


def available_memory() -> float:
    """Bytes a training may use: of the GPU where there is one, else of the machine or its container."""
    if tf.config.list_physical_devices("GPU"):
        limit = _gpu_memory()
        if limit is not None:
            return limit
    return free_memory()


def free_memory() -> float:
    """Bytes that are free in the machine, or in its container."""
    free = _meminfo_available()
    for folder, maximum, usage, cache in CONTAINER:
        allowed, used = _number(Path(folder, maximum)), _number(Path(folder, usage))
        if allowed is not None and used is not None:
            free = min(free, allowed - used + _statistic(Path(folder, "memory.stat"), cache))
    return free


def ensure_memory(estimate: MemoryEstimate, available: float) -> None:
    """Raises DoesNotFit when the training cannot fit, naming the largest part and what makes it smaller."""
    if estimate.total <= available:
        return
    if estimate.activations > estimate.parameters + estimate.optimizer:
        remedy = "lower training.batch_size, model.encoder_steps and model.decoder_steps, or model.hidden_size"
    else:
        remedy = "lower data.vocabulary_size, model.hidden_size or model.projection_size"
    raise DoesNotFit(
        f"this training needs about {gigabytes(estimate.total)}, and {gigabytes(available)} are free; {remedy}"
    )


def gigabytes(size: float) -> str:
    """1.9e9 → "1.9 GB", 2.5e6 → "3 MB"."""
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"


def _meminfo_available() -> float:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    except OSError:
        pass
    return math.inf


def _statistic(path: Path, name: str) -> float:
    try:
        return next(float(value) for key, value in map(str.split, path.read_text().splitlines()) if key == name)
    except (OSError, ValueError, StopIteration):
        return 0.0


def _number(path: Path) -> Optional[float]:
    try:
        return float(path.read_text())
    except (OSError, ValueError):  # there is no such file, or it says "max"
        return None


def _gpu_memory() -> Optional[float]:
    """Bytes of the first GPU."""
    try:
        from tensorflow.python.client import device_lib  # the only way to the size without allocating all of it

        sizes = [device.memory_limit for device in device_lib.list_local_devices() if device.device_type == "GPU"]
        return float(sizes[0]) if sizes else None
    except (ImportError, RuntimeError):
        return None
