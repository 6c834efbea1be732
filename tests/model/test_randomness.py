"""Dropout and scheduled sampling: rates, schedules, and random numbers of their own for each use."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Model, Training
from seq2seq_chat.model import decoder, encoder, seq2seq
from seq2seq_chat.model.randomness import RandomContext, RowSlice, dropout, sampling_mask, sampling_probability
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.text.vocabulary import GO
from tests.random_weights import randomize

VOCABULARY = 23


def context(step: int = 3, rate: float = 0.2, **changes: Any) -> RandomContext:
    return RandomContext(1, tf.constant(step, tf.int64), rate, **changes)


@pytest.mark.parametrize("rows", [None, RowSlice(100, 200, 500)], ids=["all rows", "some rows"])
def test_the_rate_is_the_share_of_zeros_and_the_others_are_scaled(rows: RowSlice | None) -> None:
    result = dropout(tf.fill([200, 100], 3.0), context(rows=rows), "purpose").numpy()
    assert np.mean(result == 0) == pytest.approx(0.2, abs=5 * math.sqrt(0.2 * 0.8 / result.size))
    np.testing.assert_allclose(result[result != 0], 3 / 0.8, rtol=1e-6)


def test_every_use_has_its_own_mask() -> None:
    """Steps, times within a step, purposes, micro-batches and seeds."""
    contexts = [
        *((context(step), "purpose", time) for step in range(4) for time in (None, 0, 1, 2, 3)),
        (context(), "other", None),
        (context(micro_batch=1), "purpose", None),
        (context()._replace(seed=2), "purpose", None),
    ]
    masks = {dropout(tf.ones([4, 40]), *use).numpy().tobytes() for use in contexts}
    assert len(masks) == len(contexts)
    assert dropout(tf.ones([4, 40]), *contexts[0]).numpy().tobytes() in masks


@pytest.mark.parametrize("probability", [None, tf.constant(0.5)], ids=["teacher forcing", "scheduled sampling"])
def test_no_two_uses_of_a_training_step_share_a_mask(
    monkeypatch: pytest.MonkeyPatch, probability: tf.Tensor | None
) -> None:
    """Embeddings, every layer but the last of the encoder and the decoder, and the output."""
    uses: Counter[tuple[str, Any]] = Counter()

    def recorded(x: tf.Tensor, random: RandomContext | None, purpose: str, time: Any = None) -> tf.Tensor:
        assert random is not None
        uses[purpose, time] += 1
        return dropout(x, random, purpose, time)

    for module in (encoder, decoder, seq2seq):
        monkeypatch.setattr(module, "dropout", recorded)
    sizes = {"hidden_size": 4, "embedding_size": 3, "projection_size": None, "encoder_steps": 3, "decoder_steps": 4}
    model = Seq2Seq(Model(layers=3, **sizes), 9, seed=1)
    batch = [tf.fill([2, 3], 5), tf.fill([2], 3), tf.fill([2, 4], 6), tf.fill([2], 4)]
    model.loss(*batch, random=context(sampling_probability=probability))
    words = [("decoder/words", t) for t in ([None] if probability is None else range(4))]
    expected = [(f"encoder/{layer}", None) for layer in range(3)]
    expected += [(f"decoder/{layer}", t) for layer in range(2) for t in range(4)]
    assert uses == Counter([*words, *expected, ("output", None)])


def test_each_micro_batch_has_its_own_randomness() -> None:
    """The number of a micro-batch may be a tensor, as in a graph that micro-batches share."""
    random = RandomContext(seed=1, step=tf.constant(7, tf.int64), dropout_rate=0.5, micro_batches=3)
    seeds = [random._replace(micro_batch=number).stateless_seed("purpose", 2).numpy() for number in range(3)]
    assert len({tuple(seed) for seed in seeds}) == 3
    graph = tf.function(lambda number: random._replace(micro_batch=number).stateless_seed("purpose", 2))
    for number, seed in enumerate(seeds):
        np.testing.assert_array_equal(graph(tf.constant(number)), seed)


@pytest.mark.parametrize("shape", [[6, 5], [3, 6, 5]])
@pytest.mark.parametrize("time", [None, 2])
def test_a_slice_of_rows_has_the_random_numbers_of_the_entire_micro_batch(shape: list[int], time: int | None) -> None:
    x, step = tf.random.stateless_normal(shape, [1, 2]), tf.constant(4, tf.int64)
    random = RandomContext(1, step, dropout_rate=0.4, sampling_probability=tf.constant(0.5), micro_batch=2)
    all_rows = dropout(x, random, "purpose", time).numpy()
    mask = sampling_mask(random, tf.constant(6), 9).numpy()
    for first, last in ((0, 2), (2, 3), (3, 6), (0, 6)):
        part = random._replace(rows=RowSlice(first, last - first, 6))
        rows = dropout(x[..., first:last, :], part, "purpose", time)
        np.testing.assert_array_equal(rows, all_rows[..., first:last, :])
        np.testing.assert_array_equal(sampling_mask(part, tf.constant(last - first), 9), mask[:, first:last])


def sampling(probability: float, **changes: Any) -> RandomContext:
    return context(rate=0.0, sampling_probability=tf.constant(probability), **changes)


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


def test_mask_has_the_given_probability_and_is_stateless() -> None:
    mask = sampling_mask(sampling(0.3), tf.constant(2000), 11).numpy()
    assert not mask[0].any(), "the first word was replaced"
    assert mask[1:].mean() == pytest.approx(0.3, abs=4 * math.sqrt(0.21 / 20000))
    np.testing.assert_array_equal(mask, sampling_mask(sampling(0.3), tf.constant(2000), 11))
    for other in (sampling(0.3, step=4), sampling(0.3, micro_batch=1)):
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
    assert float(model.loss(*batch, random=sampling(0.0)).nats) == pytest.approx(
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
    loss = model.loss(source, source_length, target, target_length, random=sampling(1.0))
    assert float(loss.nats) == pytest.approx(nats, rel=1e-5)
