"""Whether TensorFlow's graph optimizer runs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

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
