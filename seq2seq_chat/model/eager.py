"""Calls of TensorFlow outside graphs that may be repeated millions of times.

There TensorFlow 2.15 leaks memory. A Python number becomes a tensor that is cached for ever: 800 bytes for each value.
Python 3.11 allocates memory for the attributes of every object, which the destructor of tensors does not free: 16 to 48
bytes for each tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf


def call_with_arrays(function: Callable[..., Any], *arrays: np.ndarray | np.generic) -> Any:
    """Call a TensorFlow function with arrays as tensors, without leaking memory; returns its result."""
    inputs = [tf.constant(array) for array in arrays]
    outputs = function(*inputs)
    free_attributes(inputs, outputs)
    return outputs


def free_attributes(*tensors: Any) -> None:
    """Free what nested tensors would leak."""
    for tensor in tf.nest.flatten(tensors):
        if isinstance(tensor, tf.Tensor):  # not a variable
            del tensor.__dict__
