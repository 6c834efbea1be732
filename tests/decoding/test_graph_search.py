"""The search as one graph finds what the search in NumPy finds, and its operations on logits are exact."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.config import Model
from seq2seq_chat.decoding.logit_rules import forbid
from seq2seq_chat.decoding.methods import truncated_softmax
from seq2seq_chat.decoding.search import ModelOutput, log_normalizer, top_k_words
from seq2seq_chat.model.output import MAX_TRANSPOSED_ROWS, Output
from seq2seq_chat.search.engine import ALL_WORDS, Hypotheses
from tests.search.table_model import TableModel
from tests.search.table_model import settings as decoding

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")

RULES: list[dict[str, Any]] = [
    {},
    {"min_length": 3},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2, "allow_unknown": False},
    {"repetition_penalty": 1.7, "min_length": 2},
    {"repetition_penalty": 3.0, "no_repeat_ngram_size": 3},
]
METHODS: list[dict[str, Any]] = [
    {},
    {"beam_width": 1},
    {"beam_width": 3, "n_best": 2, "length_penalty": 0.9},
    {"beam_width": 2, "length_penalty": 3.0},
    {"beam_width": 9, "length_penalty": 2.5},
    {"beam_width": 4, "n_best": 3, "beam_groups": 2, "diversity_penalty": 0.8},
    {"beam_width": 6, "beam_groups": 3, "diversity_penalty": 4.0, "length_penalty": 0.5},
    {"method": "sample", "n_best": 7},
    {"method": "sample", "n_best": 2, "temperature": 0.4, "top_k": 3},
    {"method": "sample", "n_best": 3, "top_k": 4, "top_p": 0.8},
]


@pytest.fixture(scope="module")
def model() -> TableModel:
    return TableModel(words=6, steps=4, seeds=[0, 1, 2, 3, 4])


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_both_searches_agree(model: TableModel, method: dict[str, Any], rules: dict[str, Any]) -> None:
    settings = decoding(**method, **rules)
    found, expected = model.graph_search(settings, seed=5), model.search(settings, seed=5)
    real = np.isfinite(expected.scores)  # hypotheses that do not exist may have any words
    np.testing.assert_array_equal(np.isfinite(found.scores), real)
    for name, one, other in zip(Hypotheses._fields, found, expected, strict=True):
        if name in ("scores", "ranks"):
            np.testing.assert_allclose(one[real], other[real], rtol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(one[real], other[real], err_msg=name)


def step_output(logits: np.ndarray) -> ModelOutput:
    values = tf.constant(logits, tf.float32)
    return ModelOutput(values, tf.reduce_logsumexp(values, axis=1), (), tf.zeros([len(logits), 0]))


@pytest.mark.parametrize("share", [0.002, 1])
@given(
    size=st.one_of(st.integers(1, 60), st.integers(600, 4000), st.sampled_from([1280, 5000, 6400])),
    count=st.integers(1, 12),
    forbidden=st.sampled_from([(0, 1), (0, 1, 3)]),
    distinct_values=st.sampled_from([3, 50, 10**6]),
    seed=st.integers(0, 1000),
)
def test_top_k_equals_a_stable_sort(
    size: int, count: int, forbidden: tuple, distinct_values: int, seed: int, share: float
) -> None:
    """With few distinct values there are many ties, which are sorted by id, within blocks and across them.

    Args:
        share: of the values that are not 0, so that the maxima of blocks differ.
    """
    rng = np.random.default_rng(seed)
    logits = np.where(rng.random([3, size]) < share, rng.integers(0, distinct_values, (3, size)), 0) / np.float32(7)
    logits = logits.astype(np.float32)
    log_probabilities, words = top_k_words(forbid(forbidden, step_output(logits), None, None), count)
    masked = logits.copy()
    masked[:, [word for word in forbidden if word < size]] = -np.inf
    order = np.argsort(-masked, axis=1, kind="stable")[:, :count]
    allowed = np.isfinite(np.take_along_axis(masked, order, axis=1))
    np.testing.assert_array_equal(np.where(allowed, words, -1), np.where(allowed, order, -1))
    if distinct_values < 100:  # otherwise exp overflows
        log_p = masked - np.log(np.exp(logits.astype(np.float64)).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(log_probabilities, np.take_along_axis(log_p, order, axis=1), rtol=1e-4, atol=1e-4)
    assert np.all(np.isfinite(log_probabilities) == allowed)


@pytest.mark.parametrize("words", [1, 2, 8, 64])
def test_a_nucleus_of_a_graph_at_its_boundary(words: int) -> None:
    """Of equally probable words, whose shares are exact, the fewest that add up to at least top_p."""
    for kept in {1, words // 2 or 1, words}:
        found = truncated_softmax(1.0, ALL_WORDS, kept / words)(tf.zeros([2, words]))
        np.testing.assert_allclose(found, [[1 / kept] * kept + [0] * (words - kept)] * 2, rtol=1e-6)


@given(scale=st.sampled_from([0.0, 1.0, 30.0, 300.0]), seed=st.integers(0, 1000))
def test_normalizer_equals_log_sum_exp(scale: float, seed: int) -> None:
    logits = (np.random.default_rng(seed).normal(size=[4, 70]) * scale).astype(np.float32)
    wide = logits.astype(np.float64)
    largest = wide.max(axis=1, keepdims=True)
    expected = largest[:, 0] + np.log(np.exp(wide - largest).sum(axis=1))
    np.testing.assert_allclose(log_normalizer(tf.constant(logits)), expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 2, MAX_TRANSPOSED_ROWS, MAX_TRANSPOSED_ROWS + 1])
def test_step_logits_equal_logits(rows: int) -> None:
    output = Output(Model(hidden_size=8, embedding_size=4, projection_size=6), 30, seed=1)
    output.bias.assign(np.arange(30, dtype=np.float32))
    hidden = np.random.default_rng(0).normal(size=[rows, 8]).astype(np.float32)
    expected = hidden @ output.projection.matrix.numpy() @ output.words.numpy().T + np.arange(30)
    np.testing.assert_allclose(output.step_logits(tf.constant(hidden)), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(output.logits(tf.constant(hidden)), expected, rtol=1e-5, atol=1e-6)
