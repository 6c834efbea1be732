"""Deferred gradients against automatic differentiation, which is compared with finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Model, Training
from seq2seq_chat.model.deferred import DeferredGradients
from seq2seq_chat.model.output import softmax_sampler
from seq2seq_chat.model.randomness import RandomContext
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.text.vocabulary import EOS
from seq2seq_chat.training.optimizers import sum_repeated_rows
from tests.model.test_architectures import VALUES, is_valid
from tests.pairwise import pairwise

VOCABULARY = 23
pytestmark = pytest.mark.usefixtures("unoptimized_graphs")


def small_model(**changes: object) -> Seq2Seq:
    settings = {
        "hidden_size": 7,
        "embedding_size": 5,
        "projection_size": 6,
        "encoder_steps": 3,
        "decoder_steps": 3,
    }
    return Seq2Seq(Model(**(settings | changes)), VOCABULARY, seed=3)


def small_batch(model: Seq2Seq) -> tuple[np.ndarray, ...]:
    """Sources and targets of several lengths, and a row without a sample."""
    rng = np.random.default_rng(5)
    source_length, target_length = np.array([3, 2, 1, 0], np.int32), np.array([2, 3, 1, 0], np.int32)
    source, target = (np.zeros((4, 3), np.int32) for _ in range(2))
    for row in range(4):
        source[row, : source_length[row]] = rng.integers(4, VOCABULARY, source_length[row])
        target[row, : target_length[row]] = rng.integers(4, VOCABULARY, target_length[row])
        if target_length[row]:
            target[row, target_length[row] - 1] = EOS
    return source, source_length, target, target_length


def dense(gradient: tf.Tensor | tf.IndexedSlices) -> np.ndarray:
    return tf.convert_to_tensor(gradient).numpy()


COMBINATIONS = pairwise(
    {
        **VALUES,
        "attention": (*VALUES["attention"], "concat"),
        "projection_size": (6, None),
        "shared_embeddings": (False, True),
        "dropout": (0.3, 0.0),
        "sampled_softmax": (None, 8),
        "sampled_softmax_per": ("batch", "decoder_step"),
    },
    is_valid=is_valid,
)


@pytest.mark.parametrize("settings", COMBINATIONS, ids=str)
def test_deferred_gradients_equal_automatic_differentiation(settings: dict[str, Any]) -> None:
    """For all pairs of settings."""
    architecture = {name: value for name, value in settings.items() if not name.startswith("sampled_softmax")}
    model = small_model(**architecture)
    batch = small_batch(model)
    training = Training(**{name: settings[name] for name in ("sampled_softmax", "sampled_softmax_per")})
    sampler = softmax_sampler(training, VOCABULARY, seed=1, decoder_steps=model.config.decoder_steps)

    def loss() -> tf.Tensor:
        random = RandomContext(seed=1, step=tf.constant(2, tf.int64), dropout_rate=settings["dropout"])
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


def test_unused_weights_have_no_gradient() -> None:
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
