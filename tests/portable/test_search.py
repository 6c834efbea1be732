"""The searches over arrays find what those in TensorFlow find, on handmade models that need no network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding import logit_rules as graph_rules
from seq2seq_chat.decoding import sampling as graph_sampling
from seq2seq_chat.decoding.parameters import SearchParameters
from seq2seq_chat.decoding.result import Hypotheses
from seq2seq_chat.decoding.sequential import sequential_search as graph_sequential_search
from seq2seq_chat.decoding.uniform import uniform_numbers
from seq2seq_chat.portable.beam import BeamSettings, beam_search
from seq2seq_chat.portable.logit_rules import configured_rules
from seq2seq_chat.portable.sampling import sampling_search, truncated_softmax
from seq2seq_chat.portable.search import SearchInputs, sequential_search
from seq2seq_chat.portable.steps import Arrays, StepOutput, top_k
from tests.decoding.conftest import TableModel

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")
WORDS, STEPS, SEEDS = 6, 4, [0, 1, 2, 3, 4]

RULES: list[dict[str, Any]] = [
    {},
    {"min_length": 3},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2, "allow_unknown": True},
    {"repetition_penalty": 1.7, "min_length": 2},
    {"repetition_penalty": 3.0, "no_repeat_ngram_size": 3},
]


@pytest.fixture(scope="module")
def model() -> TableModel:
    return TableModel(WORDS, STEPS, SEEDS)


def array_inputs(model: TableModel, decoding: Decoding) -> SearchInputs:
    def step(words: np.ndarray, state: Arrays, memory: Arrays) -> StepOutput:
        (history,), (row,) = state, memory
        history = np.where(words == 1, 1, history * model.words + words)
        log_probabilities = model.tables[row, history % model.tables.shape[1]]
        attention = np.stack([history, row], axis=1).astype(np.float32)
        return StepOutput(log_probabilities, np.zeros(len(words), np.float32), [history], attention)

    rows = np.arange(model.rows)
    rules = configured_rules(SearchParameters.of_settings(decoding))
    return SearchInputs(step, model.rows, [np.zeros_like(rows)], [rows], model.steps, 2, rules)


def graph_rules_of(decoding: Decoding) -> list[Any]:
    return graph_rules.configured_rules(SearchParameters.of_settings(decoding))


def assert_same(found: Hypotheses, expected: Hypotheses) -> None:
    """Hypotheses that do not exist may have any words."""
    real = np.isfinite(np.asarray(expected.scores))
    np.testing.assert_array_equal(np.isfinite(found.scores), real)
    for name, one, other in zip(Hypotheses._fields, found, map(np.asarray, expected), strict=True):
        if name in ("scores", "ranks"):
            np.testing.assert_allclose(one[real], other[real], rtol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(one[real], other[real], err_msg=name)


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_greedy_search(model: TableModel, rules: dict[str, Any]) -> None:
    decoding = Decoding(**rules)
    expected = graph_sequential_search(model.inputs(*graph_rules_of(decoding)))
    assert_same(sequential_search(array_inputs(model, decoding)), expected)


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize(
    "beam",
    [
        {"width": 1, "n_best": 1},
        {"width": 3, "n_best": 2, "length_penalty": 0.9},
        {"width": 9, "n_best": 9, "length_penalty": 2.5},
        {"width": 4, "n_best": 3, "groups": 2, "diversity": 0.8},
        {"width": 6, "n_best": 6, "groups": 3, "diversity": 4.0, "length_penalty": 0.5},
    ],
    ids=str,
)
def test_beam_search(model: TableModel, beam: dict[str, Any], rules: dict[str, Any]) -> None:
    decoding = Decoding(method="beam", **rules)
    expected = model.beam(logit_rules=graph_rules_of(decoding), **beam)
    assert_same(beam_search(array_inputs(model, decoding), BeamSettings(**beam)), expected)


@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0.4}, {"top_k": 2}, {"top_p": 0.6}, {"top_k": 3, "top_p": 0.9, "min_length": 2}]
)
def test_sampling(model: TableModel, settings: dict[str, Any]) -> None:
    decoding = Decoding(method="sample", n_best=7, **settings)
    parameters = SearchParameters.of_settings(decoding)
    uniform = uniform_numbers(5, np.arange(len(SEEDS))[:, np.newaxis], 7, STEPS)
    distribution = graph_sampling.truncated_softmax(parameters.temperature, parameters.top_k, parameters.top_p)
    inputs = model.inputs(*graph_rules_of(decoding))
    expected = graph_sampling.sampling_search(inputs, tf.constant(uniform), distribution)
    assert_same(sampling_search(array_inputs(model, decoding), uniform, parameters), expected)


@pytest.mark.parametrize("size", [5, 1000, 3001, 20_000])
@pytest.mark.parametrize("count", [1, 4, 11])
def test_top_k_sorts_equal_values_by_index(size: int, count: int) -> None:
    values = np.random.default_rng(size).integers(0, 40, [3, size]).astype(np.float32)
    values[0, :] = -np.inf
    expected = tf.math.top_k(values, min(count, size)).indices.numpy()
    np.testing.assert_array_equal(top_k(values, min(count, size)), expected)


def test_a_truncated_distribution_sums_to_one() -> None:
    logits = np.random.default_rng(1).normal(size=[4, 50]).astype(np.float32)
    parameters = SearchParameters.of_settings(Decoding(method="sample", top_k=9, top_p=0.8, temperature=1.3))
    probabilities = truncated_softmax(logits, parameters)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    assert (np.count_nonzero(probabilities, axis=1) <= 9).all()
