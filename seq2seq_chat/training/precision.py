"""The precision of matrix products in training, and whether this machine supports it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import processor_flags

BFLOAT16_INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}
MIN_COMPUTE_CAPABILITY = {"float16": (7, 0), "bfloat16": (8, 0)}  # with tensor cores for it


class PrecisionUnavailable(UserError):
    """This machine does not support a precision, or only far more slowly than float32."""


def ensure_available(precision: str) -> None:
    """Raise PrecisionUnavailable if this machine has no instructions for a precision."""
    if precision == "float32":
        return
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        for gpu in gpus:
            details = tf.config.experimental.get_device_details(gpu)
            required, capability = MIN_COMPUTE_CAPABILITY[precision], details.get("compute_capability", (0, 0))
            if capability < required:
                raise PrecisionUnavailable(
                    f"training.precision {precision} needs a GPU of compute capability {_format_version(required)}, "
                    f"but {details.get('device_name', gpu.name)} has {_format_version(capability)}; "
                    "use --set training.precision=float32"
                )
    elif precision == "float16":
        raise PrecisionUnavailable(
            "training.precision float16 needs a GPU, and TensorFlow finds none; "
            "use --set training.precision=" + ("bfloat16" if BFLOAT16_INSTRUCTIONS & processor_flags() else "float32")
        )
    elif not BFLOAT16_INSTRUCTIONS & processor_flags():
        raise PrecisionUnavailable(
            "training.precision bfloat16 needs a CPU with avx512_bf16 or amx_bf16 instructions; "
            "use --set training.precision=float32"
        )


def why_unavailable(precision: str) -> str | None:
    """Why a precision is unavailable on this machine, or None if it is available."""
    try:
        ensure_available(precision)
    except PrecisionUnavailable as reason:
        return str(reason)
    return None


def with_loss_scale(optimizer: Any) -> Any:
    """Add dynamic loss scaling for float16, in which small gradients would vanish (Micikevicius et al. 2018).

    A step whose gradients overflow is skipped and halves the scale; 2,000 other steps in a row double it.
    """
    return tf.keras.mixed_precision.LossScaleOptimizer(optimizer)


def loss_scale_variables(optimizer: Any) -> list[tf.Variable]:
    """The variables of an optimizer's loss scale, if it has one."""
    if not isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer):
        return []
    state = optimizer._loss_scale  # Keras has a public property for the value only
    return [state.current_loss_scale, state.counter]


def _format_version(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
