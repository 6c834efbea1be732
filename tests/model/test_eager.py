"""Calls with arrays outside graphs."""

from __future__ import annotations

import gc
import sys

import numpy as np
import tensorflow as tf

from seq2seq_chat.model.execution import call_with_arrays


def test_the_result_is_that_of_the_function() -> None:
    total, (difference,) = call_with_arrays(lambda a, b: (a + b, [a - b]), np.array([1, 2]), np.int64(3))
    assert (total.numpy().tolist(), difference.numpy().tolist()) == ([4, 5], [-2, -1])


def test_a_variable_keeps_its_attributes() -> None:
    variable = tf.Variable(1.0, name="rate")
    call_with_arrays(variable.assign, np.float32(2))
    assert (variable.name, variable.numpy()) == ("rate:0", 2)


def test_calls_leak_no_objects() -> None:
    graph = tf.function(lambda number, array: (number + 1, [array + 1]), autograph=False)

    def call(times: int) -> int:
        for number in range(times):
            call_with_arrays(graph, np.int64(number), np.ones(3, np.float32))
        gc.collect()
        return sys.getallocatedblocks()

    before = call(200)
    assert call(2000) - before < 200
