"""The search that can be watched finds what the compiled search finds, on random models and for all settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Decoding, Model
from seq2seq_chat.data.vocabulary import EOS, PAD
from seq2seq_chat.inference.observed_search import ObservedSearch
from seq2seq_chat.inference.reply_search import ReplySearch
from seq2seq_chat.inference.scorer import Scorer
from seq2seq_chat.model.seq2seq import Seq2Seq
from tests.random_weights import randomize

VOCABULARY, STEPS, UTTERANCES = 15, 6, 8
pytestmark = pytest.mark.usefixtures("unoptimized_graphs")

ARCHITECTURES: list[dict[str, Any]] = [
    {"layers": 2, "cell": "gru", "bidirectional": True, "attention_query": "previous", "output": "maxout"},
    {"attention": "none", "context": "every_step"},
]
SETTINGS: list[dict[str, Any]] = [
    {"beam_width": 1},
    {"beam_width": 4, "n_best": 1},
    {"beam_width": 7, "n_best": 7, "length_penalty": 1.5},
    {"beam_width": 30, "n_best": 30, "allow_unknown": True},  # more than there are words
    {"beam_width": 6, "n_best": 3, "min_length": 3, "no_repeat_ngram_size": 2},
    {"beam_width": 5, "n_best": 5, "repetition_penalty": 1.7},
    {"beam_width": 6, "n_best": 6, "beam_groups": 3, "diversity_penalty": 2.0},
    {"beam_width": 4, "n_best": 4, "beam_groups": 4, "diversity_penalty": 0.3, "length_penalty": 0.7},
]


def random_model(**architecture: Any) -> Seq2Seq:
    sizes = {"hidden_size": 8, "embedding_size": 6, "projection_size": 5, "encoder_steps": 5, "decoder_steps": STEPS}
    model = Seq2Seq(Model(**(sizes | architecture)), VOCABULARY, seed=4)
    randomize(model, seed=9, scale=1.2)
    model.output.bias.assign_add(2.0 * tf.one_hot(EOS, VOCABULARY))
    return model


@pytest.fixture(scope="module")
def utterances() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 6, UTTERANCES).astype(np.int32)
    source = rng.integers(4, VOCABULARY, (UTTERANCES, 5)).astype(np.int32)
    source[np.arange(5) >= lengths[:, np.newaxis]] = PAD
    return source, lengths


@pytest.mark.parametrize(
    ("architecture", "variants"),
    [
        ({}, SETTINGS[2:4]),
        pytest.param({}, SETTINGS, marks=pytest.mark.slow(minutes=0.4)),
        *(pytest.param(other, SETTINGS[4:6], marks=pytest.mark.slow(minutes=0.1)) for other in ARCHITECTURES),
    ],
    ids=range(4),
)
def test_the_result_is_that_of_the_compiled_search(
    architecture: dict[str, Any], variants: list[dict[str, Any]], utterances: tuple[np.ndarray, np.ndarray]
) -> None:
    model = random_model(**architecture)
    watched = ObservedSearch(model)
    source, lengths = utterances
    for settings in variants:
        decoding = Decoding(method="beam", **settings)
        expected = ReplySearch(model, decoding)(source, lengths)
        for row in range(UTTERANCES):
            *_, last = watched(source[row : row + 1], lengths[row : row + 1], decoding)
            exist = int(np.isfinite(expected.scores[row]).sum())
            found = last.beam[: decoding.n_best]
            assert len(found) == exist
            for n, node in enumerate(found):
                length = expected.lengths[row, n]
                assert list(node.words) == expected.words[row, n, :length].tolist()
                assert node.score == pytest.approx(expected.scores[row, n], abs=1e-4)
                assert node.rank == pytest.approx(expected.ranks[row, n], abs=1e-4)
                assert node.ended == expected.ended[row, n]
                np.testing.assert_allclose(node.attention, expected.attention[row, n, :length], atol=1e-5)
    assert watched._step.experimental_get_tracing_count() == 1


def test_a_forced_prefix_is_scored_by_the_model(utterances: tuple[np.ndarray, np.ndarray]) -> None:
    """Scores of hypotheses that start with forced words, one of which a rule forbids, equal teacher forcing."""
    model = random_model()
    source, lengths = utterances[0][:1], utterances[1][:1]
    decoding = Decoding(method="beam", beam_width=3, n_best=3, no_repeat_ngram_size=1)
    prefix = (7, 7, 12)
    *_, last = ObservedSearch(model)(source, lengths, decoding, prefix)
    assert len(last.beam) == 3
    for node in last.beam:
        assert node.words[:3] == prefix
        words = np.full([1, STEPS], PAD, np.int32)
        words[0, : len(node.words)] = node.words
        expected = Scorer(model).log_probabilities(source, lengths, words, np.array([len(node.words)], np.int32))
        assert node.score == pytest.approx(expected[0], abs=1e-4)
