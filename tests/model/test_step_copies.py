"""Steps of a loop are traced once; ``test_gradients.py`` compares gradients with automatic differentiation."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from seq2seq_chat.model.deferred import DeferredGradients, matmul
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.model.step_copies import copied
from tests.model.test_gradients import small_model

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")


def build(model: Seq2Seq, steps: int) -> FuncGraph:
    """The graph of loss and gradients for sources and targets of some steps."""

    def gradients(source: tf.Tensor, lengths: tf.Tensor) -> list[tf.Tensor]:
        with DeferredGradients() as tape:
            loss = model.loss(source, lengths, source, lengths).nats
        return tape.gradient(loss, model.trainable_variables)

    specs = tf.TensorSpec([4, steps], tf.int32), tf.TensorSpec([4], tf.int32)
    return tf.function(gradients, autograph=False).get_concrete_function(*specs).graph


def test_cost_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of encoder and decoder has few operations, and nearly all of them are copied."""
    traced = []
    create = FuncGraph._create_op_internal

    def record(graph: FuncGraph, *arguments: object, **options: object) -> tf.Operation:
        traced.append(1)
        return create(graph, *arguments, **options)

    monkeypatch.setattr(FuncGraph, "_create_op_internal", record)
    model, counts = small_model(), []
    for steps in (4, 14):
        traced.clear()
        operations = len(build(model, steps).get_operations())
        counts.append((operations, len(traced)))
    (few, few_traced), (many, many_traced) = counts
    assert (many - few) / 10 < 110
    assert (many_traced - few_traced) / 10 < 10


def test_gradients_of_a_chain() -> None:
    """h_t = tanh(h_{t-1} W + x) + t, with the number of the step as an argument, against automatic differentiation."""
    weight, x = tf.Variable([[0.5, -0.3], [0.2, 0.7]]), tf.Variable([[0.1, 0.4], [-0.6, 0.9]])

    def loss() -> tf.Tensor:
        inputs = tf.convert_to_tensor(x)
        step = copied(lambda state, inputs, t: tf.tanh(matmul(state, weight) + inputs) + tf.cast(t, tf.float32))
        state = inputs
        for t in range(3):
            state = step(state, inputs, t)
        return tf.reduce_sum(state**2)

    @tf.function(autograph=False)
    def deferred() -> list[tf.Tensor]:
        with DeferredGradients() as tape:
            value = loss()
        return tape.gradient(value, [weight, x])

    with tf.GradientTape() as tape:
        value = loss()
    for ours, theirs in zip(deferred(), tape.gradient(value, [weight, x]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_a_gradient_is_never_lost() -> None:
    x = tf.Variable([[0.1, 0.4]])

    @tf.function(autograph=False)
    def unroll() -> None:
        with DeferredGradients():
            hidden = tf.tanh(x)
            copied(lambda state: state + hidden)(tf.zeros([1, 2]))

    with pytest.raises(ValueError, match="as an argument, because it has a gradient"):
        unroll()
