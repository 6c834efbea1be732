"""Scheduled sampling: schedules computed by hand, and the decoder's inputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Model, Training
from seq2seq_chat.model.deferred import DeferredGradients
from seq2seq_chat.model.output import WordSampler
from seq2seq_chat.model.randomness import RandomContext, sampling_mask, sampling_probability
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.text.vocabulary import GO
from tests.random_weights import randomize

VOCABULARY = 23


@pytest.mark.parametrize(
    ("kind", "max_probability", "steps", "step", "expected"),
    [
        ("constant", 0.3, 100, 0, 0.3),
        ("constant", 0.3, 100, 10**6, 0.3),
        ("linear", 0.5, 100, 0, 0.0),
        ("linear", 0.5, 100, 50, 0.25),
        ("linear", 0.5, 100, 400, 0.5),
        ("exponential", 1.0, 10, 10, 1 - 1 / math.e),
        ("exponential", 0.5, 10, 20, 0.5 * (1 - math.exp(-2))),
        ("inverse_sigmoid", 1.0, 10, 0, 1 - 10 / 11),
        ("inverse_sigmoid", 1.0, 10, 30, 1 - 10 / (10 + math.exp(3))),
        ("inverse_sigmoid", 0.5, 10, 10**6, 0.5),
    ],
)
def test_schedule(kind: Any, max_probability: float, steps: int, step: int, expected: float) -> None:
    settings = Training(
        scheduled_sampling=kind, scheduled_sampling_probability=max_probability, scheduled_sampling_steps=steps
    )
    probability = sampling_probability(settings, tf.constant(step, tf.int64))
    assert probability is not None
    assert float(probability) == pytest.approx(expected, rel=1e-5, abs=1e-7)


def context(probability: float, step: int = 3, micro_batch: int = 0) -> RandomContext:
    step_tensor, probability_tensor = tf.constant(step, tf.int64), tf.constant(probability)
    return RandomContext(7, step_tensor, sampling_probability=probability_tensor, micro_batch=micro_batch)


def test_mask_has_the_given_probability_and_is_stateless() -> None:
    mask = sampling_mask(context(0.3), tf.constant(2000), 11).numpy()
    assert not mask[0].any(), "the first word was replaced"
    assert mask[1:].mean() == pytest.approx(0.3, abs=4 * math.sqrt(0.21 / 20000))
    np.testing.assert_array_equal(mask, sampling_mask(context(0.3), tf.constant(2000), 11))
    for other in (context(0.3, step=4), context(0.3, micro_batch=1)):
        assert np.any(mask != sampling_mask(other, tf.constant(2000), 11))


def model_and_batch(**settings: object) -> tuple[Seq2Seq, tuple[np.ndarray, ...]]:
    sizes = {"hidden_size": 7, "embedding_size": 5, "projection_size": 6, "encoder_steps": 4, "decoder_steps": 5}
    model = Seq2Seq(Model(**(sizes | settings)), VOCABULARY, seed=3)
    rng = randomize(model, seed=0, scale=0.7)
    source, target = rng.integers(4, VOCABULARY, (6, 4)), rng.integers(4, VOCABULARY, (6, 5))
    lengths = rng.integers(1, 5, 6), rng.integers(1, 6, 6)
    return model, tuple(part.astype(np.int32) for part in (source, lengths[0], target, lengths[1]))


def test_probability_0_is_teacher_forcing() -> None:
    model, batch = model_and_batch()
    assert float(model.loss(*batch, random=context(0.0)).nats) == pytest.approx(
        float(model.loss(*batch).nats), rel=1e-6
    )


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_probability_1_is_free_running(cell: str) -> None:
    """Step by step: each input is the most probable word of the previous step, each target the true word."""
    model, (source, source_length, target, target_length) = model_and_batch(cell=cell, layers=2)
    state, memory = model.start(model.encode(source, source_length))
    words, nats = tf.fill([6], GO), 0.0
    for t in range(5):
        logits, state, _ = model.step(words, state, memory)
        log_p = tf.nn.log_softmax(logits).numpy()
        nats -= sum(log_p[row, target[row, t]] for row in range(6) if t < target_length[row])
        words = tf.argmax(logits, axis=1, output_type=tf.int32)
    loss = model.loss(source, source_length, target, target_length, random=context(1.0))
    assert float(loss.nats) == pytest.approx(nats, rel=1e-5)


@pytest.mark.parametrize("sampled", [None, 8])
def test_gradients_equal_automatic_differentiation(sampled: int | None) -> None:
    """Choosing a word has no gradient, but its word vector is trained."""
    model, batch = model_and_batch(layers=2)
    sampler = None if sampled is None else WordSampler(VOCABULARY, sampled, seed=1)

    def loss() -> tf.Tensor:
        random = context(0.5)
        return model.loss(*batch, random=random, sampled_words=sampler and sampler(random.step)).nats

    with tf.GradientTape() as plain:
        expected_loss = loss()
    with DeferredGradients() as tape:
        deferred_loss = loss()
    assert float(deferred_loss) == pytest.approx(float(expected_loss), rel=1e-6)
    variables = model.trainable_variables
    expected = plain.gradient(expected_loss, variables)
    for variable, *gradients in zip(variables, tape.gradient(deferred_loss, variables), expected, strict=True):
        ours, theirs = map(tf.convert_to_tensor, gradients)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5, err_msg=variable.name)
