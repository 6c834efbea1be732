"""Operations whose gradient is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf
from tensorflow.python.eager import record

InputGradients = Callable[[tf.Tensor], Sequence["tf.Tensor | None"]]
"""The gradient of an output → the gradient of each input; None for zero."""


def with_gradient(
    inputs: Sequence[tf.Tensor], compute: Callable[[], tf.Tensor], gradients: InputGradients
) -> tf.Tensor:
    """Return ``compute()``, a new tensor whose gradient with respect to each input is given by ``gradients``.

    The same as ``tf.custom_gradient``, which adds copies of all inputs and outputs to a graph, and takes several times
    as long to trace.
    """
    with record.stop_recording():
        output = compute()
    record.record_operation("CustomGradient", [output], list(inputs), gradients)
    return output
