"""Optimizers by name."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.training.precision import with_loss_scale

# the classes with fused update kernels: one pass over a variable and its accumulators, nothing in between
_keras = tf.keras.optimizers.legacy

SLOTS = {"adagrad": 1, "adadelta": 2, "adam": 2, "rmsprop": 1, "sgd": 0}
"""Numbers that an optimizer keeps for each parameter, momentum aside."""


def build_optimizer(config: Training) -> Any:
    """The Keras optimizer of a configuration, with Keras's own settings where ours are silent.

    In float16 it scales the loss: see :func:`with_loss_scale`.
    """
    optimizer = _update_rule(config)
    return with_loss_scale(optimizer) if config.precision == "float16" else optimizer


def _update_rule(config: Training) -> Any:
    rate = config.learning_rate
    if config.optimizer == "adagrad":
        return _keras.Adagrad(rate, initial_accumulator_value=0.1)
    if config.optimizer == "adadelta":
        return _keras.Adadelta(rate)
    if config.optimizer == "adam":
        return _keras.Adam(rate)
    if config.optimizer == "rmsprop":
        return _keras.RMSprop(rate, momentum=config.momentum)
    return _keras.SGD(rate, momentum=config.momentum)


def slots_per_parameter(config: Training) -> int:
    """Numbers that the optimizer keeps for each parameter."""
    return SLOTS[config.optimizer] + (1 if config.momentum else 0)
