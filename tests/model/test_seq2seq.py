"""The model against an implementation of its equations in NumPy, and invariances of its loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.architecture.variables import parameter_counts
from seq2seq_chat.config import Config, Data, Model
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.text.vocabulary import EOS, GO
from tests.random_weights import randomize
from tests.reference_model import Reference

VOCABULARY = 19


def make_model(**changes: object) -> Seq2Seq:
    settings = {
        "hidden_size": 6,
        "embedding_size": 4,
        "projection_size": 5,
        "encoder_steps": 5,
        "decoder_steps": 5,
    }
    model = Seq2Seq(Model(**(settings | changes)), VOCABULARY, seed=2)
    randomize(model, seed=1, scale=0.6)
    return model


def padded(rows: list[list[int]], steps: int) -> tuple[np.ndarray, np.ndarray]:
    ids = np.zeros((len(rows), steps), np.int32)
    for row, words in enumerate(rows):
        ids[row, : len(words)] = words
    return ids, np.array([len(words) for words in rows], np.int32)


SAMPLES = [([5, 6, 7], [8, 9, EOS]), ([4], [EOS]), ([9, 8, 7, 6, 5], [4, 5, 6, 7, 8]), ([10, 11], [12, EOS])]


@pytest.mark.parametrize(
    "architecture",
    [
        {},
        {"layers": 2},
        {"attention": "none"},
        {"attention": "none", "layers": 2},
        {"projection_size": None},
        {"attention": "dot"},
        {"attention": "concat"},
        {"attention": "general", "bidirectional": True},
        {"attention": "none", "bidirectional": True, "layers": 2},
        {"cell": "gru"},
        {"cell": "gru", "layers": 2, "bidirectional": True},
        {"cell": "rnn", "attention": "dot", "layers": 2},
        {"cell": "rnn", "bidirectional": True},
    ],
    ids=str,
)
def test_loss_equals_the_reference(architecture: dict[str, object]) -> None:
    model = make_model(**architecture)
    reference = Reference(model)
    expected = [reference.loss(source, target) for source, target in SAMPLES]
    batch = *padded([s for s, _ in SAMPLES], 5), *padded([t for _, t in SAMPLES], 5)
    loss = model.loss(*batch)
    assert float(loss.nats) == pytest.approx(sum(expected), rel=1e-5)
    np.testing.assert_allclose(Scorer(model).log_probabilities(*batch), np.negative(expected), rtol=1e-5)
    assert int(loss.tokens) == sum(len(target) for _, target in SAMPLES)


def test_decoding_step_by_step_equals_teacher_forcing() -> None:
    model = make_model(layers=2)
    for source, target in SAMPLES:
        state, memory = model.start(model.encode(*padded([source], 5)))
        nats = 0.0
        for previous, word in zip([GO, *target], target, strict=False):
            logits, state, attention = model.step(tf.constant([previous]), state, memory)
            nats -= float(tf.nn.log_softmax(logits)[0, word])
            assert attention is not None
            assert float(tf.reduce_sum(attention[0, : len(source)])) == pytest.approx(1, abs=1e-6)
            assert not np.any(attention[0, len(source) :]), "padding has attention"
        assert nats == pytest.approx(float(model.loss(*padded([source], 5), *padded([target], 5)).nats), rel=1e-5)


@pytest.mark.parametrize("attention", ["additive", "none"])
def test_loss_does_not_depend_on_padding_or_batch(attention: str) -> None:
    model = make_model(attention=attention)
    padded_model = make_model(attention=attention, encoder_steps=9, decoder_steps=8)
    alone = [float(model.loss(*padded([s], 5), *padded([t], 5)).nats) for s, t in SAMPLES]
    more_padding = [float(padded_model.loss(*padded([s], 9), *padded([t], 8)).nats) for s, t in SAMPLES]
    batch = model.loss(*padded([s for s, _ in SAMPLES], 5), *padded([t for _, t in SAMPLES], 5))
    assert more_padding == pytest.approx(alone, rel=1e-5)
    assert float(batch.nats) == pytest.approx(sum(alone), rel=1e-5)


def test_thought_vector_is_the_state_after_the_last_word() -> None:
    model = make_model()
    words, lengths = padded([[5, 6]], 5)
    changed_padding = words.copy()
    changed_padding[0, 2:] = 13  # arbitrary ids instead of padding
    for ids in (words, changed_padding):
        encoded = model.encode(ids, lengths)
        np.testing.assert_allclose(encoded.states[0].output[0], encoded.outputs[0, 1], rtol=1e-6)
    np.testing.assert_array_equal(model.encode(words, lengths).states[0].memory, encoded.states[0].memory)


def test_untrained_model_considers_all_words_equally_likely() -> None:
    model = Seq2Seq(Model(hidden_size=64, embedding_size=32, projection_size=32), vocabulary_size=3000, seed=1)
    source, target = np.random.default_rng(1).integers(4, 3000, (2, 8, 30)).astype(np.int32)
    full = np.full(8, 30, np.int32)
    loss = model.loss(source, full, target, full)
    assert float(loss.nats / loss.tokens) == pytest.approx(math.log(3000), rel=0.01)


def test_parameter_counts() -> None:
    """By hand: tables 2·50000·1024; LSTMs (E+H)·4H+4H and (E+2H)·4H+4H; attention 2·H²+H; W_c 2H·H; W_p, W_s, b."""
    small = Model(hidden_size=20, embedding_size=10, projection_size=10)
    counts = parameter_counts(Config(name="x", data=Data(train="x"), model=small), 500)
    e, h, p, v = 10, 20, 10, 500
    assert counts == {
        "embedding": 2 * v * e,
        "encoder": (e + h) * 4 * h + 4 * h,
        "decoder": (e + 2 * h) * 4 * h + 4 * h + 2 * h * h + h + 2 * h * h,
        "output": h * p + v * p + v,
    }


def test_initial_values_are_a_function_of_the_seed() -> None:
    config = Model(hidden_size=4, embedding_size=3, projection_size=None)
    one, same, other = (Seq2Seq(config, 9, seed=seed) for seed in (1, 1, 2))
    for a, b, c in zip(one.trainable_variables, same.trainable_variables, other.trainable_variables, strict=True):
        np.testing.assert_array_equal(a, b)
        if a.shape.rank > 1:
            assert np.any(a.numpy() != c.numpy())
    # no two matrices are equal or multiples of each other
    starts = [v.numpy().ravel()[:3] / v.numpy().ravel()[0] for v in one.trainable_variables if v.shape.rank > 1]
    assert len({tuple(np.round(start, 4)) for start in starts}) == len(starts)


def test_products_of_all_words_are_not_kept_for_large_vocabularies(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Seq2Seq(Model(hidden_size=8, embedding_size=4, projection_size=6), 30, seed=1)
    assert model.search_weights().inputs.cell.shape == (30, 32)  # type: ignore[union-attr]
    monkeypatch.setattr("seq2seq_chat.model.seq2seq.MAX_PROJECTED_BYTES", 4 * 30 * 32 - 1)
    assert model.search_weights().inputs == ()
