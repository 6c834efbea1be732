"""Optimizers by name."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.training.precision import with_loss_scale

# classes with fused update kernels: one pass over a variable and its accumulators
_keras = tf.keras.optimizers.legacy


def build_optimizer(settings: Training) -> Any:
    """Build the configured Keras optimizer; for float16 it scales the loss, see :func:`with_loss_scale`.

    Raises:
        UserError: a GPU cannot compute its updates.
    """
    if settings.optimizer == "rmsprop" and settings.momentum and tf.config.list_physical_devices("GPU"):
        raise UserError(
            "TensorFlow cannot update word vectors by training.optimizer=rmsprop with training.momentum on a GPU; "
            "use adam or sgd, or set training.momentum to 0"
        )
    optimizer = _keras_optimizer(settings)
    return with_loss_scale(optimizer) if settings.precision == "float16" else optimizer


def _keras_optimizer(settings: Training) -> Any:
    rate = settings.learning_rate
    if settings.optimizer == "adagrad":
        return _keras.Adagrad(rate, initial_accumulator_value=0.1)
    if settings.optimizer == "adadelta":
        return _keras.Adadelta(rate)
    if settings.optimizer == "adam":
        return _keras.Adam(rate)
    if settings.optimizer == "rmsprop":
        return _keras.RMSprop(rate, momentum=settings.momentum)
    return _keras.SGD(rate, momentum=settings.momentum)
