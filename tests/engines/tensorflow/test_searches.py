"""Properties of searches over small random models."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Decoding, Model
from seq2seq_chat.engines.tensorflow import search as graph_search
from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.engines.tensorflow.search import MIN_BANNED, GraphSearch
from seq2seq_chat.model.execution import call_with_arrays
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.search import batches
from seq2seq_chat.search.engine import Hypotheses
from seq2seq_chat.text.vocabulary import EOS, PAD, UNKNOWN
from tests.random_weights import randomize
from tests.search.table_model import settings

VOCABULARY, STEPS = 12, 6
pytestmark = pytest.mark.usefixtures("unoptimized_graphs")
Utterances = tuple[np.ndarray, np.ndarray]
Search = Callable[[Decoding], GraphSearch]


def random_model(**changes: Any) -> Seq2Seq:
    settings = {"hidden_size": 8, "embedding_size": 6, "projection_size": 5, "encoder_steps": 5, "decoder_steps": STEPS}
    model = Seq2Seq(Model(**(settings | changes)), VOCABULARY, seed=4)
    randomize(model, seed=9, scale=1.2)
    return model


@pytest.fixture(
    scope="module",
    params=[
        {},
        {"cell": "gru", "bidirectional": True, "attention_query": "previous", "output": "maxout"},
        *(
            pytest.param(architecture, marks=pytest.mark.slow)
            for architecture in (
                {"layers": 2},
                {"attention": "none"},
                {"attention": "none", "context": "every_step", "output": "maxout"},
                {"input_feeding": False, "context": "every_step"},
            )
        ),
    ],
    ids=str,
)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    return random_model(**request.param)


@pytest.fixture(scope="module")
def utterances() -> Utterances:
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 6, 40).astype(np.int32)
    source = rng.integers(4, VOCABULARY, (40, 5)).astype(np.int32)
    source[np.arange(5) >= lengths[:, np.newaxis]] = PAD
    return source, lengths


BEAM = Decoding(method="beam", beam_width=3, n_best=3, allow_unknown=True)


@pytest.fixture(scope="module")
def search(model: Seq2Seq) -> Search:
    """The compiled search of some settings, shared by the tests."""
    return functools.cache(lambda decoding: GraphSearch(model, decoding))


SETTINGS: list[dict[str, Any]] = [
    {"method": "greedy", "no_repeat_ngram_size": 2},
    {"method": "greedy", "repetition_penalty": 1.5, "min_length": 3},
    {"method": "sample", "n_best": 3, "temperature": 1.5},
    {"method": "sample", "n_best": 4, "temperature": 0.6, "top_k": 7, "top_p": 0.8, "allow_unknown": True},
    {"beam_width": 1},
    {"beam_width": 4, "n_best": 2, "length_penalty": 0.7},
    {"beam_width": 15, "allow_unknown": True},  # more than there are words
    {"beam_width": 6, "n_best": 3, "min_length": 3, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3},
    {"beam_width": 4, "n_best": 2, "beam_groups": 2, "diversity_penalty": 0.5},
    {"beam_width": 4, "n_best": 3, "stop": "first_end"},
    # with the graph of others above, of which they are inputs
    {"method": "greedy", "allow_unknown": False, "min_length": 5},
    {"method": "sample", "temperature": 0.3, "top_k": 10**9, "top_p": 0.9},
    {"method": "sample", "n_best": 3, "top_k": 2, "allow_unknown": False},
    {"beam_width": 3, "n_best": 1, "length_penalty": 3.0},
    {"beam_width": 9, "no_repeat_ngram_size": 10_000},
    {"beam_width": 4, "n_best": 4, "beam_groups": 2, "diversity_penalty": 5.0},
]


@pytest.fixture(scope="module")
def plain_engine() -> TensorFlowEngine:
    """An engine of a model that often writes unknown words and the end."""
    model = random_model()
    model.output.bias.assign_add(3.0 * tf.one_hot(EOS, VOCABULARY) + 4.0 * tf.one_hot(UNKNOWN, VOCABULARY))
    return TensorFlowEngine(model, constant=True)


@pytest.fixture(scope="module")
def engine(model: Seq2Seq) -> TensorFlowEngine:
    return TensorFlowEngine(model, constant=True)


def test_a_search_by_steps_finds_what_the_graph_finds(engine: TensorFlowEngine, utterances: Utterances) -> None:
    compare_searches(engine, utterances, settings(beam_width=4, n_best=2, length_penalty=0.7))


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_so_it_does_with_every_setting(
    plain_engine: TensorFlowEngine, utterances: Utterances, changes: dict[str, Any]
) -> None:
    compare_searches(plain_engine, utterances, settings(**changes))


def compare_searches(engine: TensorFlowEngine, utterances: Utterances, decoding: Decoding) -> None:
    found = by_steps(engine, decoding)(*utterances, 3)
    for name, field, expected in zip(Hypotheses._fields, found, engine.search(decoding)(*utterances, 3), strict=True):
        np.testing.assert_allclose(field, expected, rtol=1e-5, atol=1e-5, err_msg=name)


def by_steps(engine: TensorFlowEngine, decoding: Decoding) -> batches.ReplySearch:
    """The search for whole batches, but step by step."""
    config = engine.model.config
    return batches.ReplySearch(engine.steps, decoding, STEPS, config.encoder_steps if config.attention != "none" else 0)


def test_a_watched_search_finds_what_the_graph_finds(engine: TensorFlowEngine, utterances: Utterances) -> None:
    """The first hypotheses, their scores and attention; words that are forced cost what teacher forcing says."""
    decoding = settings(beam_width=4, n_best=3, length_penalty=0.7, no_repeat_ngram_size=1)
    source, lengths = utterances[0][:1], utterances[1][:1]
    expected = engine.search(decoding)(source, lengths)
    *_, last = engine.search(decoding).watch(source, lengths)
    for n, node in enumerate(last.beam[:3]):
        assert node.words == tuple(expected.words[0, n, : expected.lengths[0, n]].tolist())
        assert node.score == pytest.approx(expected.scores[0, n], abs=1e-4)
        attention = np.stack(node.attention)
        np.testing.assert_allclose(
            attention, expected.attention[0, n, : len(attention), : attention.shape[1]], atol=1e-5
        )
    prefix = (7, 7, 11)
    *_, last = engine.search(decoding).watch(source, lengths, prefix)
    words = np.zeros([1, STEPS], np.int32)
    for node in last.beam:
        assert node.words[:3] == prefix
        words[0, : len(node.words)] = node.words
        expected_score = Scorer(engine.model).log_probabilities(
            source, lengths, words, np.array([len(node.words)], np.int32)
        )
        assert node.score == pytest.approx(expected_score[0], abs=1e-4)


def test_settings_are_inputs_of_the_graph_of_a_step(plain_engine: TensorFlowEngine, utterances: Utterances) -> None:
    """Only the number of words to return, and whether they are sampled, needs another graph."""
    engine = plain_engine
    steps = engine.steps
    for penalty, n, length in ((1.0, 0, 0), (1.4, 2, 3), (1.0, 1, 5)):
        options = {"repetition_penalty": penalty, "no_repeat_ngram_size": n, "min_length": length}
        for method in ({}, {"beam_width": 3}, {"method": "sample", "temperature": 0.5 + length, "top_k": n or None}):
            by_steps(engine, settings(**method, **options))(*utterances, 1)
    kinds = {(v.k, "uniform" in v.inputs) for v in steps._steps if not v.reported and v.k in (1, 4)}
    assert kinds >= {(1, False), (1, True), (4, False)}
    assert all(variant.banned == MIN_BANNED for variant in steps._steps)


def test_many_settings_need_four_graphs(utterances: Utterances) -> None:
    engine = TensorFlowEngine(random_model())
    rules = [{}, {"min_length": 3, "allow_unknown": True}, {"no_repeat_ngram_size": 4, "repetition_penalty": 1.2}]
    samples = [{}, {"n_best": 4, "temperature": 0.3}, {"top_k": 7}, {"top_p": 0.5, "temperature": 2.0}]
    beams = [{"beam_width": width, "n_best": max(1, width - 2), "length_penalty": width / 9} for width in range(1, 11)]
    methods = [{}, *({"method": "sample", **each} for each in samples), *({"method": "beam", **each} for each in beams)]
    for number, options in enumerate(one | other for one in methods for other in rules):
        search = engine.search(Decoding(**options))
        if number % 6 == 0:
            search(*utterances)
    assert len(engine._searches) == 4  # greedy search, sampling, and beams of up to 5 and 10
    assert {graph._compiled.experimental_get_tracing_count() for graph in engine._searches.values()} == {1}


def test_what_the_dynamic_decoder_does_not_support_is_searched_for_statically(utterances: Utterances) -> None:
    decoding = Decoding(method="beam", beam_width=4, n_best=3, min_length=2)
    found = TensorFlowEngine(random_model(unrolling="dynamic")).search(decoding)(*utterances)
    expected = GraphSearch(random_model(), decoding)(*utterances)
    np.testing.assert_array_equal(found.words, expected.words)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)


def test_scores_equal_teacher_forcing(model: Seq2Seq, utterances: Utterances, search: Search) -> None:
    hypotheses = search(BEAM)(*utterances)
    scorer = Scorer(model)
    for n in range(3):
        expected = scorer.log_probabilities(*utterances, hypotheses.words[:, n], hypotheses.lengths[:, n])
        np.testing.assert_allclose(hypotheses.scores[:, n], expected, atol=1e-4)


def test_utterances_are_searched_in_batches_of_similar_lengths(
    utterances: Utterances, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = search(BEAM)(*utterances)
    batched: list[list[int]] = []

    def record(function: Callable[..., Any], source: np.ndarray, lengths: np.ndarray, *arrays: Any) -> Any:
        batched.append(lengths.tolist())
        return call_with_arrays(function, source, lengths, *arrays)

    monkeypatch.setattr(batches, "MAX_ROWS", 21)
    monkeypatch.setattr(graph_search, "call_with_arrays", record)
    found = search(BEAM)(*utterances)
    assert [len(batch) for batch in batched] == [7, 7, 7, 7, 7, 5]
    assert [length for batch in batched for length in batch] == sorted(utterances[1])
    np.testing.assert_array_equal(found.words, expected.words)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
