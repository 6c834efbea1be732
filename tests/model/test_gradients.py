"""The deferred gradients against plain automatic differentiation, and that against finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.corpus.vocabulary import EOS
from seq2seq_chat.model.deferred import DeferredGradients
from seq2seq_chat.model.dropout import Dropout
from seq2seq_chat.model.output import softmax_sampler
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training.gradients import sum_repeated_rows

VOCABULARY = 23


def small_model(**changes: object) -> Seq2Seq:
    settings = {
        "hidden_size": 7,
        "embedding_size": 5,
        "projection_size": 6,
        "encoder_steps": 4,
        "decoder_steps": 5,
    }
    return Seq2Seq(Model(**(settings | changes)), VOCABULARY, seed=3)


def small_batch(model: Seq2Seq) -> tuple[np.ndarray, ...]:
    """Sources and targets of several lengths, among them an empty row that only fills the batch."""
    rng = np.random.default_rng(5)
    source_length, target_length = np.array([4, 2, 1, 0], np.int32), np.array([3, 5, 1, 0], np.int32)
    source, target = np.zeros((4, 4), np.int32), np.zeros((4, 5), np.int32)
    for row in range(4):
        source[row, : source_length[row]] = rng.integers(4, VOCABULARY, source_length[row])
        target[row, : target_length[row]] = rng.integers(4, VOCABULARY, target_length[row])
        if target_length[row]:
            target[row, target_length[row] - 1] = EOS
    return source, source_length, target, target_length


def dense(gradient: tf.Tensor | tf.IndexedSlices) -> np.ndarray:
    return tf.convert_to_tensor(gradient).numpy()


ARCHITECTURES = [
    dict(zip(("attention", "layers", "projection_size", "shared_embeddings"), values, strict=True))
    for values in itertools.product(("additive", "none"), (1, 2), (6, None), (False, True))
] + [
    {"attention": attention, "cell": cell, "bidirectional": both, "layers": layers}
    for attention, cell, both, layers in (
        ("dot", "lstm", False, 1),
        ("dot", "gru", False, 2),
        ("general", "rnn", True, 1),
        ("general", "lstm", True, 2),
        ("concat", "gru", True, 2),
        ("none", "rnn", True, 2),
        ("none", "gru", False, 1),
    )
]


@pytest.mark.parametrize("sampled", [None, 8])
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=str)
def test_deferred_gradients_equal_automatic_differentiation(
    architecture: dict[str, object], sampled: int | None
) -> None:
    model = small_model(**architecture)
    batch = small_batch(model)
    sampler = softmax_sampler(VOCABULARY, sampled, seed=1)

    def loss() -> tf.Tensor:
        result = model.loss(*batch, sampler=sampler, dropout=Dropout(0.3, 1, tf.constant(2)), step=tf.constant(2))
        return result.nats / result.tokens

    @tf.function
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


def test_gradient_equals_finite_differences() -> None:
    model = small_model()
    batch = small_batch(model)
    with tf.GradientTape() as tape:
        loss = model.loss(*batch).nats
    gradients = tape.gradient(loss, model.trainable_variables)
    rng, epsilon = np.random.default_rng(0), 3e-2
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        direction = rng.standard_normal(variable.shape).astype(np.float32)
        direction /= np.linalg.norm(direction)
        values = variable.numpy()
        ends = []
        for sign in (1, -1):
            variable.assign(values + sign * epsilon * direction)
            ends.append(float(model.loss(*batch).nats))
        variable.assign(values)
        slope = float(np.sum(dense(gradient) * direction))
        assert (ends[0] - ends[1]) / (2 * epsilon) == pytest.approx(slope, rel=0.02, abs=2e-3), variable.name


def test_a_weight_the_loss_does_not_reach_has_no_gradient() -> None:
    model = small_model()
    with DeferredGradients() as tape:
        encoded = model.encode(*small_batch(model)[:2])
        loss = tf.reduce_sum(encoded.outputs)
    by_name = dict(
        zip((v.name for v in model.trainable_variables), tape.gradient(loss, model.trainable_variables), strict=True)
    )
    assert by_name["encoder/layer0/recurrent:0"] is not None
    assert by_name["decoder/layer0/recurrent:0"] is None
    assert by_name["output/words:0"] is None
