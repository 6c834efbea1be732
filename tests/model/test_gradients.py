"""Deferred gradients against automatic differentiation; steps of a loop are traced once.

``test_seq2seq.py`` compares gradients with finite differences.
"""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from seq2seq_chat.config import Model, Training
from seq2seq_chat.model.deferred import DeferredGradients
from seq2seq_chat.model.output import softmax_sampler
from seq2seq_chat.model.randomness import RandomContext
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.model.step_copies import copied
from seq2seq_chat.training.optimizers import sum_repeated_rows
from tests.model.test_seq2seq import SAMPLES, VALUES, VOCABULARY, is_valid, make_batch, make_model
from tests.pairwise import pairwise

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")


def dense(gradient: tf.Tensor | tf.IndexedSlices) -> np.ndarray:
    return tf.convert_to_tensor(gradient).numpy()


COMBINATIONS = pairwise(
    {
        **VALUES,
        "shared_embeddings": (False, True),
        "dropout": (0.3, 0.0),
        "scheduled_sampling": (None, 0.5),
        "sampled_softmax": (None, 8),
        "sampled_softmax_per": ("batch", "decoder_step"),
    },
    is_valid=is_valid,
)


@pytest.mark.parametrize("settings", COMBINATIONS, ids=str)
def test_deferred_gradients_equal_automatic_differentiation(settings: dict[str, Any]) -> None:
    """For all pairs of settings."""
    architecture = {name: value for name, value in settings.items() if name in Model.model_fields}
    model = make_model(**architecture)
    batch = make_batch([*SAMPLES[:3], ([], [])])  # the last row has no sample
    training = Training(**{name: settings[name] for name in ("sampled_softmax", "sampled_softmax_per")})
    sampler = softmax_sampler(training, VOCABULARY, seed=1, decoder_steps=model.config.decoder_steps)

    def loss() -> tf.Tensor:
        probability = settings["scheduled_sampling"]  # choosing a word has no gradient, but its vector is trained
        random = RandomContext(1, tf.constant(2, tf.int64), settings["dropout"], probability)
        result = model.loss(*batch, random=random, sampled_words=sampler and sampler(random.step))
        return result.nats / result.tokens

    @tf.function(autograph=False)
    def deferred() -> list[tf.Tensor]:
        with DeferredGradients() as tape:
            value = loss()
        return [sum_repeated_rows(g) for g in tape.gradient(value, model.trainable_variables)]

    with tf.GradientTape() as tape:
        value = loss()
    expected = tape.gradient(value, model.trainable_variables)

    for variable, ours, theirs in zip(model.trainable_variables, deferred(), expected, strict=True):
        assert np.any(dense(theirs)), f"{variable.name} has no gradient to compare"
        np.testing.assert_allclose(dense(ours), dense(theirs), rtol=1e-4, atol=1e-7, err_msg=variable.name)


def test_unused_weights_have_no_gradient() -> None:
    model = make_model()
    with DeferredGradients() as tape:
        encoded = model.encode(*make_batch()[:2])
        loss = tf.reduce_sum(encoded.outputs)
    by_name = dict(
        zip((v.name for v in model.trainable_variables), tape.gradient(loss, model.trainable_variables), strict=True)
    )
    assert by_name["encoder/layer0/recurrent:0"] is not None
    assert by_name["decoder/layer0/recurrent:0"] is None
    assert by_name["output/words:0"] is None


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
    model, counts = make_model(), []
    for steps in (4, 14):
        traced.clear()
        operations = len(build(model, steps).get_operations())
        counts.append((operations, len(traced)))
    (few, few_traced), (many, many_traced) = counts
    assert (many - few) / 10 < 110
    assert (many_traced - few_traced) / 10 < 10


def test_a_gradient_is_never_lost() -> None:
    x = tf.Variable([[0.1, 0.4]])

    @tf.function(autograph=False)
    def unroll() -> None:
        with DeferredGradients():
            hidden = tf.tanh(x)
            copied(lambda state: state + hidden)(tf.zeros([1, 2]))

    with pytest.raises(ValueError, match="as an argument, because it has a gradient"):
        unroll()
