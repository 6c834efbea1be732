"""The dynamic decoder of tensorflow-addons and our unrolled graph agree on the same variables."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Config, ConfigError, Decoding, Model, parse_config
from seq2seq_chat.corpus.encoded import Batch
from seq2seq_chat.corpus.vocabulary import EOS, GO, PAD
from seq2seq_chat.decoding.dynamic import DynamicDecoder, load_addons
from seq2seq_chat.decoding.reply_search import ReplySearch
from seq2seq_chat.model.attention import ATTENTIONS
from seq2seq_chat.model.dropout import Dropout
from seq2seq_chat.model.own_words import OwnWords, schedule
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep

VOCABULARY, STEPS, ROWS = 21, 6, 5

COMBINATIONS = [
    {"cell": cell, "layers": layers, "bidirectional": both, "attention": attention, "projection_size": projection}
    for cell, layers, both, attention, projection in itertools.product(
        ("lstm", "gru", "rnn"), (1, 2), (False, True), ("additive", "concat", "dot", "general", "none"), (None, 4)
    )
    if not (attention == "dot" and both)
]
assert len(COMBINATIONS) >= 60
SAMPLED = random.Random(1).sample(COMBINATIONS, 6)


def make(**architecture: object) -> tuple[Seq2Seq, Batch]:
    """A model with weights of some size, which gives no probability to padding and start marker, and samples."""
    sizes = {"hidden_size": 6, "embedding_size": 5, "encoder_steps": STEPS, "decoder_steps": STEPS}
    model = Seq2Seq(Model(**(sizes | architecture)), VOCABULARY, seed=2)
    rng = np.random.default_rng(3)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape) * 0.8)
    bias = model.output.bias.numpy()
    bias[[PAD, GO]] = -40
    model.output.bias.assign(bias)
    source, target = (rng.integers(3, VOCABULARY, [ROWS, STEPS]).astype(np.int32) for _ in range(2))
    source_length, target_length = (rng.integers(1, STEPS + 1, ROWS).astype(np.int32) for _ in range(2))
    for row in range(ROWS):
        source[row, source_length[row] :] = PAD
        target[row, target_length[row] - 1 :] = [EOS, *[PAD] * (STEPS - target_length[row])]
    return model, Batch(source, source_length, target, target_length)


def dynamic_loss(model: Seq2Seq, batch: Batch, **how: Any) -> float:
    static, model.unroll = model.unroll, DynamicDecoder(model).unroll
    try:
        return float(tf.function(lambda: model.loss(*batch, **how).nats, autograph=False)())
    finally:
        model.unroll = static


def replies(model: Seq2Seq, batch: Batch, unrolling: str, **decoding: Any) -> Any:
    settings = Decoding(unrolling=unrolling, allow_unknown=True, **decoding)
    return ReplySearch(model, settings)(batch.source, batch.source_length)


def ensure_agreement(architecture: dict[str, object], reverse: bool, penalties: tuple[float, ...] = (0.0,)) -> None:
    model, batch = make(**architecture)
    if reverse:
        turned = np.zeros_like(batch.source)
        for row, length in enumerate(batch.source_length):
            turned[row, :length] = batch.source[row, :length][::-1]
        batch = batch._replace(source=turned)
    assert dynamic_loss(model, batch) == pytest.approx(float(model.loss(*batch).nats), rel=1e-5)
    beams = [{"method": "beam", "beam_width": 4, "n_best": 4, "length_penalty": penalty} for penalty in penalties]
    for decoding in ({}, *beams):
        ours, theirs = (replies(model, batch, unrolling, **decoding) for unrolling in ("static", "dynamic"))
        np.testing.assert_array_equal(theirs.words, ours.words)
        np.testing.assert_allclose(theirs.scores, ours.scores, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(theirs.ranks, ours.ranks, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(theirs.lengths, ours.lengths)
        np.testing.assert_array_equal(theirs.ended, ours.ended)
        np.testing.assert_allclose(theirs.attention, ours.attention, atol=1e-5)


@pytest.mark.parametrize("architecture", SAMPLED, ids=str)
def test_losses_and_replies_agree(architecture: dict[str, object]) -> None:
    ensure_agreement(architecture, reverse=SAMPLED.index(architecture) % 2 == 1, penalties=(0.0, 0.7))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", random.Random(2).sample(COMBINATIONS, 60), ids=str)
def test_losses_and_replies_agree_in_sixty_combinations(architecture: dict[str, object]) -> None:
    ensure_agreement(architecture, reverse=COMBINATIONS.index(architecture) % 3 == 1)


@pytest.mark.parametrize("scheduled", [False, True])
def test_dropout_and_scheduled_sampling_agree(scheduled: bool) -> None:
    model, batch = make(layers=2)
    step = tf.constant(4, tf.int64)
    own = OwnWords(schedule("constant", 0.5, 1), 3, step) if scheduled else None
    how: dict[str, Any] = {"dropout": Dropout(0.4, 1, step), "own_words": own, "step": step}
    assert dynamic_loss(model, batch, **how) == pytest.approx(float(model.loss(*batch, **how).nats), rel=1e-5)
    assert float(model.loss(*batch).nats) != pytest.approx(float(model.loss(*batch, **how).nats), rel=1e-3)


def configuration(unrolling: str) -> Config:
    settings = {"hidden_size": 6, "embedding_size": 5, "projection_size": 4, "unrolling": unrolling, "layers": 2}
    settings |= {"encoder_steps": STEPS, "decoder_steps": STEPS}
    training = {"batch_size": ROWS, "sampled_softmax": 8, "optimizer": "sgd", "learning_rate": 0.5, "batch_parts": 1}
    return parse_config({"name": "x", "data": {"train": "t"}, "model": settings, "training": training}, where="test")


def test_a_training_step_moves_the_variables_alike() -> None:
    moved = []
    for unrolling in ("static", "dynamic"):
        _, batch = make()
        config = configuration(unrolling)
        model = Seq2Seq(config.model, VOCABULARY, seed=5)
        optimizer = build_optimizer(config.training)
        optimizer._create_all_weights(model.trainable_variables)
        step = TrainingStep(model, optimizer, config)
        results = [step(batch, number) for number in range(3)]
        assert step.traces == 1
        moved.append([float(r.loss.nats) for r in results] + [v.numpy() for v in model.trainable_variables])
    for static, dynamic in zip(*moved, strict=True):
        np.testing.assert_allclose(dynamic, static, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["additive", "general"])
def test_scores_are_those_of_the_addons(kind: str) -> None:
    """Their own layers, with their own variables, given our weights."""
    seq2seq, rng = load_addons().seq2seq, np.random.default_rng(6)
    attention = ATTENTIONS[kind]("attention", hidden=7, values=5, seed=1)
    for variable in attention.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    values, query = rng.normal(size=[3, 6, 5]).astype(np.float32), rng.normal(size=[3, 7]).astype(np.float32)
    lengths = np.array([6, 1, 4], np.int32)
    theirs = (seq2seq.BahdanauAttention if kind == "additive" else seq2seq.LuongAttention)(7)
    theirs.setup_memory(values, memory_sequence_length=lengths)
    state = tf.zeros([3, 6])
    theirs([query, state])
    theirs.memory_layer.set_weights([attention.key.matrix.numpy()])
    if kind == "additive":
        theirs.query_layer.set_weights([attention.query.matrix.numpy()])
        theirs.attention_v.assign(attention.score)
    theirs.setup_memory(values, memory_sequence_length=lengths)
    expected, _ = theirs([query, state])
    context, weights = attention(attention.remember(tf.constant(values), tf.constant(lengths)), tf.constant(query))
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    np.testing.assert_allclose(context, np.einsum("bs,bsu->bu", expected, values), atol=1e-5)


def test_what_the_dynamic_decoder_cannot_is_refused_or_left_to_ours() -> None:
    with pytest.raises(ValueError, match="unrolling dynamic knows greedy and beam search"):
        Decoding(unrolling="dynamic", no_repeated_ngrams=2)
    with pytest.raises(ConfigError, match="the dynamic decoder computes in float32"):
        settings = {"model": {"unrolling": "dynamic"}, "training": {"precision": "bfloat16"}}
        parse_config({"name": "x", "data": {"train": "t"}, **settings}, where="test")
    model, batch = make(unrolling="dynamic")
    found = ReplySearch(model, Decoding(no_repeated_ngrams=1))(batch.source, batch.source_length)
    for words in found.words[:, 0]:
        said = [word for word in words if word not in (PAD, EOS)]
        assert len(set(said)) == len(said)
