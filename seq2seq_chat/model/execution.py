"""How TensorFlow executes: micro-batches, options of graphs, and calls outside graphs, repeated millions of times.

A product of one step of a small model takes tens of microseconds, and the operations between products take less, so
dividing each among the cores costs more than it gains. The batch is divided instead into micro-batches: each core takes
some rows through the entire network, and waits for the others only when gradients are combined, which are products over
the rows of all micro-batches. A large model is faster with all cores at one product, because its weights then pass
through the caches once.

Outside graphs TensorFlow 2.15 leaks memory. A Python number becomes a tensor that is cached for ever: 800 bytes for
each value. Python 3.11 allocates memory for the attributes of every object, which the destructor of tensors does not
free: 16 to 48 bytes for each tensor.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import context

from seq2seq_chat.config import Model, Training
from seq2seq_chat.model.randomness import RowSlice
from seq2seq_chat.system.hardware import available_cores


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


MIN_ROWS = 16  # of a micro-batch: products of fewer rows are no faster
MAX_HIDDEN_SIZE = 1024  # above it, the products of an entire batch keep all cores busy


class Share(NamedTuple):
    """The slice of every batch that a device computes."""

    device: int = 0
    devices: int = 1


ENTIRE_BATCH = Share()


class MicroBatch(NamedTuple):
    """A group of rows of a batch that is computed in parallel to others, or the slice of one that a device computes.

    Devices that share a batch get equal slices of its rows. Where a slice ends inside a micro-batch, the device
    generates the random numbers of the entire micro-batch and keeps the ones of its rows.
    """

    number: int  # seeds its random numbers
    rows: RowSlice | None  # the slice; None for all rows
    size: int


def micro_batch_count(model: Model, training: Training) -> int:
    """Number of micro-batches per batch: as configured, or as suits the model and the machine."""
    if training.micro_batches is not None:
        return training.micro_batches
    if model.unrolling == "dynamic":  # loops do not run in parallel
        return 1
    if model.hidden_size > MAX_HIDDEN_SIZE or tf.config.list_physical_devices("GPU"):
        return 1
    return max(1, min(available_cores(), training.batch_size // MIN_ROWS))


def share_cores(count: int) -> None:
    """Give each micro-batch its own cores. Has no effect after TensorFlow's first operation."""
    if count == 1:
        return
    with contextlib.suppress(RuntimeError):  # TensorFlow has started its threads: only the speed differs
        tf.config.threading.set_intra_op_parallelism_threads(max(1, available_cores() // count))
        tf.config.threading.set_inter_op_parallelism_threads(count)


def divide_rows(rows: int, count: int, share: Share = ENTIRE_BATCH) -> Iterator[MicroBatch]:
    """Divide a device's share of a batch of ``rows``, a multiple of the number of devices, into micro-batches."""
    start, stop = (device * rows // share.devices for device in (share.device, share.device + 1))
    for number, micro_batch in enumerate(np.array_split(np.arange(rows), count)):
        kept = micro_batch[(micro_batch >= start) & (micro_batch < stop)]
        if len(kept):
            row_slice = RowSlice(int(kept[0] - micro_batch[0]), len(kept), len(micro_batch))
            yield MicroBatch(number, None if row_slice.size == row_slice.total else row_slice, row_slice.size)


def split_batch(
    batch: Sequence[tf.Tensor], count: int, share: Share = ENTIRE_BATCH
) -> list[tuple[MicroBatch, Sequence[tf.Tensor]]]:
    """Divide a device's share of a batch of tensors, [rows, …] each, into micro-batches."""
    rows = batch[0].shape[0]
    if count == share.devices == 1:
        return [(MicroBatch(0, None, rows), batch)]
    micro_batches = list(divide_rows(rows, count, share))
    sizes = [micro_batch.size for micro_batch in micro_batches]
    first = share.device * sum(sizes)
    columns = [tf.split(tensor[first : first + sum(sizes)], sizes) for tensor in batch]
    return [(micro_batch, tensors) for micro_batch, *tensors in zip(micro_batches, *columns, strict=True)]
