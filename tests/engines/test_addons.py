"""The dynamic decoder of tensorflow-addons and our unrolled graph agree, given the same variables."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Config, ConfigError, Decoding, Model, parse_config
from seq2seq_chat.data.dataset import Batch
from seq2seq_chat.engines.addons import build_model
from seq2seq_chat.engines.tensorflow.search import GraphSearch
from seq2seq_chat.model.randomness import RandomContext
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.search.engine import Hypotheses
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.vocabulary import EOS, GO, PAD
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep
from tests.pairwise import pairwise
from tests.random_weights import randomize

VOCABULARY, STEPS, ROWS = 21, 4, 5
pytestmark = pytest.mark.usefixtures("unoptimized_graphs")

COMBINATIONS = pairwise(
    {
        "cell": ("lstm", "gru", "rnn"),
        "layers": (1, 2),
        "residual": (False, True),
        "bidirectional": (False, True),
        "attention": ("additive", "concat", "dot", "general", "none"),
        "input_feeding": (True, False),
        "context": ("initial_state", "every_step"),
        "projection_size": (None, 4),
        "reverse": (False, True),
        "length_penalty": (0.0, 0.7),
    },
    is_valid=lambda settings: not (settings["bidirectional"] and settings["attention"] == "dot"),  # unequal sizes
)


def make_model_and_batch(**architecture: object) -> tuple[Seq2Seq, Batch]:
    """A model with large weights that gives no probability to padding and the start marker, and samples."""
    sizes = {"hidden_size": 6, "embedding_size": 5, "encoder_steps": STEPS, "decoder_steps": STEPS}
    model = Seq2Seq(Model(**(sizes | architecture)), VOCABULARY, seed=2)
    rng = randomize(model, seed=3, scale=0.8)
    bias = model.output.bias.numpy()
    bias[[PAD, GO]] = -40
    model.output.bias.assign(bias)
    source, target = (rng.integers(3, VOCABULARY, [ROWS, STEPS]).astype(np.int32) for _ in range(2))
    source_length, target_length = (rng.integers(1, STEPS + 1, ROWS).astype(np.int32) for _ in range(2))
    for row in range(ROWS):
        source[row, source_length[row] :] = PAD
        target[row, target_length[row] - 1 :] = [EOS, *[PAD] * (STEPS - target_length[row])]
    return model, Batch(source, source_length, target, target_length)


def dynamic_loss(model: Seq2Seq, batch: Batch, random: RandomContext | None = None) -> float:
    """The loss of a dynamically unrolled model with the same weights."""
    dynamic = build_model(model.config.model_copy(update={"unrolling": "dynamic"}), VOCABULARY, model.seed)
    for variable, value in zip(dynamic.trainable_variables, model.trainable_variables, strict=True):
        variable.assign(value)
    return float(tf.function(lambda: dynamic.loss(*batch, random=random).nats, autograph=False)())


def search(model: Seq2Seq, batch: Batch, unrolling: str, **decoding: Any) -> Hypotheses:
    settings = Decoding(unrolling=unrolling, allow_unknown=True, **decoding)
    return GraphSearch(model, settings)(batch.source, batch.source_length)


def reverse_sources(batch: Batch) -> Batch:
    source = np.zeros_like(batch.source)
    for row, length in enumerate(batch.source_length):
        source[row, :length] = batch.source[row, :length][::-1]
    return batch._replace(source=source)


def with_empty_rows(batch: Batch) -> Batch:
    """A batch whose first row has no source and whose last one is padding."""
    rows = [field.copy() for field in batch]
    for field, row in zip((0, 1, 0, 1, 2, 3), (0, 0, -1, -1, -1, -1), strict=True):
        rows[field][row] = 0
    return Batch(*rows)


def check_agreement(reverse: bool, length_penalty: float, **architecture: Any) -> None:
    model, batch = make_model_and_batch(**architecture)
    batch = reverse_sources(batch) if reverse else batch
    padded = with_empty_rows(batch)
    assert dynamic_loss(model, padded) == pytest.approx(float(model.loss(*padded).nats), rel=1e-5)
    beam = {"method": "beam", "beam_width": 4, "n_best": 4, "length_penalty": length_penalty}
    for decoding in ({}, beam):
        static, dynamic = (search(model, batch, unrolling, **decoding) for unrolling in ("built_in", "dynamic"))
        np.testing.assert_array_equal(dynamic.words, static.words)
        np.testing.assert_allclose(dynamic.scores, static.scores, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(dynamic.ranks, static.ranks, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(dynamic.lengths, static.lengths)
        np.testing.assert_array_equal(dynamic.ended, static.ended)
        np.testing.assert_allclose(dynamic.attention, static.attention, atol=1e-5)


@pytest.mark.parametrize(
    ("architecture", "reverse", "length_penalty"),
    [
        pytest.param(
            {"cell": "lstm", "layers": 2, "bidirectional": True, "attention": "additive", "projection_size": 4},
            False,
            0.7,
            marks=pytest.mark.slow,
        ),
        ({"cell": "gru", "attention": "dot", "projection_size": None, "input_feeding": False}, True, 0.0),
        ({"cell": "rnn", "layers": 2, "attention": "none", "context": "every_step"}, False, 0.7),
    ],
    ids=["lstm, additive", "gru, dot without input feeding", "rnn, thought vector at every step"],
)
def test_losses_and_replies_agree(architecture: dict[str, Any], reverse: bool, length_penalty: float) -> None:
    check_agreement(reverse, length_penalty, **architecture)


@pytest.mark.nightly
@pytest.mark.parametrize("settings", COMBINATIONS, ids=str)
def test_losses_and_replies_agree_for_all_pairs_of_settings(settings: dict[str, Any]) -> None:
    check_agreement(**settings)


@pytest.mark.parametrize("scheduled", [False, True])
def test_dropout_and_scheduled_sampling_agree(scheduled: bool) -> None:
    model, batch = make_model_and_batch(layers=2)
    probability = tf.constant(0.5) if scheduled else None
    random = RandomContext(1, tf.constant(4, tf.int64), dropout_rate=0.4, sampling_probability=probability)
    static = float(model.loss(*batch, random=random).nats)
    assert dynamic_loss(model, batch, random) == pytest.approx(static, rel=1e-5)
    assert static != pytest.approx(float(model.loss(*batch).nats), rel=1e-3)


def configuration(unrolling: str) -> Config:
    settings = {"hidden_size": 6, "embedding_size": 5, "projection_size": 4, "unrolling": unrolling, "layers": 2}
    settings |= {"encoder_steps": STEPS, "decoder_steps": STEPS}
    training = {"batch_size": ROWS, "sampled_softmax": 8, "optimizer": "sgd", "learning_rate": 0.5, "micro_batches": 1}
    return parse_config({"name": "x", "data": {"train": "t"}, "model": settings, "training": training}, where="test")


@pytest.mark.slow
def test_training_steps_agree() -> None:
    results = []
    for unrolling in ("static", "dynamic"):
        _, batch = make_model_and_batch()
        config = configuration(unrolling)
        model = build_model(config.model, VOCABULARY, seed=5)
        optimizer = build_optimizer(config.training)
        optimizer._create_all_weights(model.trainable_variables)
        step = TrainingStep(model, optimizer, config.training)
        outputs = [step(batch, number) for number in range(3)]
        assert step.traces == 1
        results.append([float(output.loss.nats) for output in outputs] + [v.numpy() for v in model.trainable_variables])
    for static, dynamic in zip(*results, strict=True):
        np.testing.assert_allclose(dynamic, static, rtol=1e-4, atol=1e-5)


def test_unsupported_settings_are_rejected() -> None:
    with pytest.raises(ValueError, match="unrolling dynamic supports only greedy and beam search"):
        Decoding(unrolling="dynamic", no_repeat_ngram_size=2)
    with pytest.raises(ConfigError, match="the dynamic decoder computes in float32"):
        settings = {"model": {"unrolling": "dynamic"}, "training": {"precision": "bfloat16"}}
        parse_config({"name": "x", "data": {"train": "t"}, **settings}, where="test")
    model, _ = make_model_and_batch(attention_query="previous")
    with pytest.raises(UserError, match=r"does not support model\.attention_query previous; use built_in"):
        GraphSearch(model, Decoding(unrolling="dynamic"))
