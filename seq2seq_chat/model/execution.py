"""How TensorFlow executes: options of graphs, and calls outside graphs that may be repeated millions of times.

Outside graphs TensorFlow 2.15 leaks memory. A Python number becomes a tensor that is cached for ever: 800 bytes for
each value. Python 3.11 allocates memory for the attributes of every object, which the destructor of tensors does not
free: 16 to 48 bytes for each tensor.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import context


@contextlib.contextmanager
def without_optimizer() -> Iterator[None]:
    """Graphs that are first called inside run as they were traced.

    The optimizer (Grappler) rewrites a graph at its first call. An unrolled graph of thousands of operations takes it
    longer than the graph took to trace, and it finds little to improve in one whose products were arranged by hand.
    """
    state = context.context()
    options = state.function_call_options
    state.function_call_options = _options_without_optimizer()
    try:
        yield
    finally:
        state.function_call_options = options


@functools.cache
def _options_without_optimizer() -> context.FunctionCallOptions:
    config = config_pb2.ConfigProto.FromString(context.context().function_call_options.config_proto_serialized)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return context.FunctionCallOptions(config_proto=config)


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


@contextlib.contextmanager
def file_errors_as_os_error(path: Path) -> Iterator[None]:
    """Turn errors of TensorFlow's own writing of files, such as ResourceExhaustedError on a full disk, into OSError.

    Args:
        path: what is written; part of the error.
    """
    try:
        yield
    except tf.errors.OpError as error:
        number = next((number for number in errno.errorcode if os.strerror(number) in error.message), None)
        if number is None:
            raise
        raise OSError(number, os.strerror(number), str(path)) from error
