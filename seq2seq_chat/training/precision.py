"""In which type matrices are multiplied while training, and what that asks of the device."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from seq2seq_chat.environment import processor_flags
from seq2seq_chat.errors import UserError

BFLOAT16_INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}
LEAST_GPU = {"float16": (7, 0), "bfloat16": (8, 0)}  # compute capability with matrix units for the type


class PrecisionUnavailable(UserError):
    """A precision that this machine cannot compute in, or only far slower than in float32."""


def ensure_available(precision: str) -> None:
    """Raises PrecisionUnavailable where the device has no instructions for a precision."""
    if precision == "float32":
        return
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        for gpu in gpus:
            details = tf.config.experimental.get_device_details(gpu)
            least, has = LEAST_GPU[precision], details.get("compute_capability", (0, 0))
            if has < least:
                raise PrecisionUnavailable(
                    f"training.precision is {precision}, for which a GPU needs compute capability {_dotted(least)}, "
                    f"and {details.get('device_name', gpu.name)} has {_dotted(has)}; "
                    "use --set training.precision=float32"
                )
    elif precision == "float16":
        raise PrecisionUnavailable(
            "training.precision is float16, which only GPUs multiply fast, and TensorFlow sees none here; "
            "use --set training.precision=" + ("bfloat16" if BFLOAT16_INSTRUCTIONS & processor_flags() else "float32")
        )
    elif not BFLOAT16_INSTRUCTIONS & processor_flags():
        raise PrecisionUnavailable(
            "training.precision is bfloat16, and this processor has no instructions for it (avx512_bf16 or amx_bf16); "
            "use --set training.precision=float32"
        )


def unavailable(precision: str) -> Optional[str]:
    """Why a precision cannot be had on this machine, or None."""
    try:
        ensure_available(precision)
    except PrecisionUnavailable as reason:
        return str(reason)
    return None


def with_loss_scale(optimizer: Any) -> Any:
    """An optimizer for float16, whose smallest number is so large that gradients would vanish.

    The loss is multiplied by a scale before it is differentiated and the gradients are divided by it afterwards. A step
    whose gradients overflow is left out and halves the scale; 2,000 good steps in a row double it (Micikevicius et al.
    2018).
    """
    return tf.keras.mixed_precision.LossScaleOptimizer(optimizer)


def loss_scale_variables(optimizer: Any) -> list[tf.Variable]:
    """What changes with the loss scale, empty for an optimizer without one."""
    if not isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer):
        return []
    state = optimizer._loss_scale  # Keras offers its value only, and a resumed training needs the variable
    return [state.current_loss_scale, state.counter]


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
