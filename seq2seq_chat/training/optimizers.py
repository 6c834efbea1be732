"""Optimizers: clipping, learning rates and precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.model.deferred import Gradient
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import processor_flags


def sum_repeated_rows(gradient: Gradient) -> Gradient:
    """Sum the slices of a sparse gradient that belong to the same row.

    A word that occurs several times in a batch has several slices in the gradient of its table. Norms and AdaGrad need
    their sum.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, position = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, position, tf.shape(rows)[0])
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def sum_gradients(gradients: Sequence[Gradient | None]) -> Gradient | None:
    """The sum of gradients of the same variable, all dense or all sparse; None if it has none."""
    if len(gradients) == 1 or gradients[0] is None:
        return gradients[0]
    sparse = [gradient for gradient in gradients if isinstance(gradient, tf.IndexedSlices)]
    if not sparse:
        return tf.add_n(gradients)
    values = tf.concat([gradient.values for gradient in sparse], axis=0)
    rows = tf.concat([gradient.indices for gradient in sparse], axis=0)
    return tf.IndexedSlices(values, rows, sparse[0].dense_shape)


def global_norm(gradients: Sequence[Gradient]) -> tf.Tensor:
    """sqrt(Σ ‖g‖²) over all variables. Sparse gradients must have no repeated rows."""
    half_squares = [tf.nn.l2_loss(g.values if isinstance(g, tf.IndexedSlices) else g) for g in gradients]  # one pass
    return tf.sqrt(2.0 * tf.add_n(half_squares))


def clip(
    gradients: Sequence[Gradient], limit: float | None, by: Literal["norm", "value"] = "norm"
) -> tuple[list[Gradient], tf.Tensor]:
    """Clip gradients; None: no limit.

    By ``norm``, rescale all together if their global norm exceeds the limit (Pascanu et al. 2013). By ``value``, clip
    each entry to ±limit, which may change the direction (Mikolov 2012, section 3.2.2).

    Returns:
        The gradients, without repeated rows, and their global norm before clipping.
    """
    gradients = [sum_repeated_rows(gradient) for gradient in gradients]
    norm = global_norm(gradients)
    if limit is None:
        return gradients, norm
    if by == "value":
        return [_map_values(lambda x: tf.clip_by_value(x, -limit, limit), gradient) for gradient in gradients], norm
    scale = tf.minimum(1.0, limit / norm)

    def rescaled() -> list[Gradient]:
        return [_map_values(lambda x: x * scale, gradient) for gradient in gradients]

    # most gradients are below the limit; multiplying them by one would be a wasted pass over memory
    return tf.cond(norm <= limit, lambda: gradients, rescaled), norm


def _map_values(function: Callable[[tf.Tensor], tf.Tensor], gradient: Gradient) -> Gradient:
    """Apply a function to a gradient, or to the values of a sparse one."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)


class Schedule:
    """The learning rate of each step and early stopping, given the validations so far.

    Its :attr:`state` is part of every checkpoint: validations since the best one, validations since the learning rate
    dropped, and how often it dropped.
    """

    def __init__(self, settings: Training) -> None:
        self.settings = settings
        self.state = {"since_best": 0, "since_fall": 0, "falls": 0}

    def restore(self, state: Mapping[str, int]) -> None:
        """Continue from the state in a checkpoint."""
        self.state |= {key: int(value) for key, value in state.items() if key in self.state}

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0.

        ::

            constant       rate
            exponential    rate · decay^(step / decay steps)
            inverse_sqrt   rate · √(warm-up / (step + 1)), from the last step of the warm-up on
            linear         rate · (1 - step / steps)
            plateau        rate · decay^drops

        During the warm-up, this times (step + 1) / warm-up.
        """
        settings, warmup = self.settings, max(1, self.settings.warmup_steps)
        rate = settings.learning_rate * min(1.0, (step + 1) / warmup)
        if settings.learning_rate_schedule == "linear":
            return rate * max(0.0, 1 - step / settings.steps)
        if settings.learning_rate_schedule == "exponential":
            return rate * settings.learning_rate_decay ** (step / settings.learning_rate_decay_steps)
        if settings.learning_rate_schedule == "inverse_sqrt":
            return rate * math.sqrt(warmup / max(warmup, step + 1))
        if settings.learning_rate_schedule == "plateau":
            return rate * settings.learning_rate_decay ** self.state["falls"]
        return rate

    def record_validation(self, improved: bool) -> bool:
        """Count a validation; returns whether the learning rate drops because of it."""
        if improved:
            self.state |= {"since_best": 0, "since_fall": 0}
            return False
        self.state["since_best"] += 1
        self.state["since_fall"] += 1
        drops = (
            self.settings.learning_rate_schedule == "plateau"
            and self.state["since_fall"] >= self.settings.learning_rate_patience
        )
        if drops:
            self.state |= {"since_fall": 0, "falls": self.state["falls"] + 1}
        return drops

    @property
    def stopped_early(self) -> bool:
        """Whether early stopping ends the training."""
        patience = self.settings.early_stopping
        return patience is not None and self.state["since_best"] >= patience


BFLOAT16_INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}
MIN_COMPUTE_CAPABILITY = {"float16": (7, 0), "bfloat16": (8, 0)}  # with tensor cores for it


def why_unavailable(precision: str) -> str | None:
    """Why this machine does not support a precision, or only far more slowly than float32; None if it does."""
    if precision == "float32":
        return None
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        details = tf.config.experimental.get_device_details(gpu)
        required, capability = MIN_COMPUTE_CAPABILITY[precision], details.get("compute_capability", (0, 0))
        if capability < required:
            return (
                f"training.precision {precision} needs a GPU of compute capability {_format_version(required)}, "
                f"but {details.get('device_name', gpu.name)} has {_format_version(capability)}; "
                "use --set training.precision=float32"
            )
    has_bfloat16 = bool(BFLOAT16_INSTRUCTIONS & processor_flags())
    if precision == "float16" and not gpus:
        return (
            "training.precision float16 needs a GPU, and TensorFlow finds none; "
            f"use --set training.precision={'bfloat16' if has_bfloat16 else 'float32'}"
        )
    if not gpus and not has_bfloat16:
        return (
            "training.precision bfloat16 needs a CPU with avx512_bf16 or amx_bf16 instructions; "
            "use --set training.precision=float32"
        )
    return None


def ensure_available(precision: str) -> None:
    """Raise UserError if this machine has no instructions for a precision."""
    if reason := why_unavailable(precision):
        raise UserError(reason)


def loss_scale_variables(optimizer: Any) -> list[tf.Variable]:
    """The variables of an optimizer's loss scale, if it has one."""
    if not isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer):
        return []
    state = optimizer._loss_scale  # Keras has a public property for the value only
    return [state.current_loss_scale, state.counter]


def _format_version(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def build_optimizer(settings: Training) -> Any:
    """Build the configured Keras optimizer.

    For float16, in which small gradients would vanish, it scales the loss (Micikevicius et al. 2018). A step whose
    gradients overflow is skipped and halves the scale; 2,000 other steps in a row double it.

    Raises:
        UserError: a GPU cannot compute its updates.
    """
    if settings.optimizer == "rmsprop" and settings.momentum and tf.config.list_physical_devices("GPU"):
        raise UserError(
            "TensorFlow cannot update embeddings with training.optimizer=rmsprop and training.momentum on a GPU; "
            "use adam or sgd, or set training.momentum to 0"
        )
    keras = tf.keras.optimizers.legacy  # with fused update kernels: one pass over a variable and its accumulators
    kind, options = {
        "adagrad": (keras.Adagrad, {"initial_accumulator_value": 0.1}),
        "adadelta": (keras.Adadelta, {}),
        "adam": (keras.Adam, {}),
        "rmsprop": (keras.RMSprop, {"momentum": settings.momentum}),
        "sgd": (keras.SGD, {"momentum": settings.momentum}),
    }[settings.optimizer]
    optimizer = kind(settings.learning_rate, **options)
    return tf.keras.mixed_precision.LossScaleOptimizer(optimizer) if settings.precision == "float16" else optimizer
