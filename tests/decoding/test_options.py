"""Search options: against brute force over all sequences, and sampling against the model's probabilities."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.config import ConfigError, Decoding, parse_config
from seq2seq_chat.data.vocabulary import EOS, GO, PAD, UNKNOWN
from seq2seq_chat.decoding.beam import beam_search
from seq2seq_chat.decoding.hypotheses import StepOutput, log_normalizer
from seq2seq_chat.decoding.logit_rules import (
    LogitRule,
    apply_rules,
    configured_rules,
    min_length_rule,
    no_repeat_ngram_rule,
    repetition_penalty_rule,
)
from seq2seq_chat.decoding.parameters import ALL_PROBABILITY, ALL_WORDS, SearchParameters
from seq2seq_chat.decoding.result import NEG_INF, Hypotheses
from seq2seq_chat.decoding.sampling import sample_words, sampling_search, truncated_softmax
from seq2seq_chat.decoding.search import SearchInputs
from seq2seq_chat.decoding.uniform import uniform_numbers
from seq2seq_chat.portable import sampling as portable_sampling

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")


def ngrams(sequence: Sequence[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(sequence[i : i + n]) for i in range(len(sequence) - n + 1)]


def words_of(sequence: Sequence[int]) -> list[int]:
    return [word for word in sequence if word != EOS]


def sequences(hypotheses: Hypotheses, row: int) -> list[tuple[int, ...]]:
    existing = [n for n in range(hypotheses.scores.shape[1]) if hypotheses.scores[row, n] > NEG_INF]
    return [tuple(int(w) for w in hypotheses.words[row, n, : hypotheses.lengths[row, n]]) for n in existing]


# beams as wide as the search space


@settings(max_examples=12, deadline=None)
@given(words=st.integers(4, 6), steps=st.integers(1, 3), seed=st.integers(0, 10**6), penalty=st.floats(0.1, 3))
def test_length_penalty(table_model: Any, words: int, steps: int, seed: int, penalty: float) -> None:
    model = table_model(words, steps, [seed, seed + 1])
    all_sequences = model.all_sequences()
    hypotheses = model.beam(len(all_sequences), len(all_sequences), length_penalty=penalty)
    for row in range(2):
        ranks = [model.score(row, s) / ((5 + len(words_of(s))) / 6) ** penalty for s in all_sequences]
        np.testing.assert_allclose(hypotheses.ranks[row], sorted(ranks, reverse=True), rtol=1e-4, atol=1e-5)
        scores = [model.score(row, sequence) for sequence in sequences(hypotheses, row)]
        np.testing.assert_allclose(hypotheses.scores[row], scores, atol=1e-4)
    best = model.beam(len(all_sequences), 1, length_penalty=penalty)  # early stopping must not change the best
    np.testing.assert_allclose(best.ranks[:, 0], hypotheses.ranks[:, 0], rtol=1e-5)


def test_a_longer_hypothesis_can_overtake_one_that_has_ended() -> None:
    """The best of 511 sequences of up to 8 words, in 60 models whose next word depends on the last one."""
    rows, words, steps, penalty = 60, 5, 8, 1.0
    logits = 2 * np.random.default_rng(1).normal(size=[rows, words, words])
    logits[:, :, [PAD, GO]] = NEG_INF
    table = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    live = [word for word in range(words) if word not in (PAD, GO, EOS)]
    all_sequences = [(*s, EOS) for n in range(steps) for s in itertools.product(live, repeat=n)]
    all_sequences += itertools.product(live, repeat=steps)

    def step(words: tf.Tensor, state: Any, memory: Any) -> StepOutput:
        log_p = tf.gather_nd(tf.constant(table, tf.float32), tf.stack([memory, words], axis=1))
        return StepOutput(log_p, tf.zeros(tf.shape(words)), state, tf.zeros([tf.shape(words)[0], 0]))

    def best_rank(width: int, n_best: int) -> np.ndarray:
        inputs = SearchInputs(step, tf.zeros([rows]), tf.range(rows), steps, source_steps=0)
        return beam_search(inputs, width=width, n_best=n_best, length_penalty=penalty).ranks[:, 0].numpy()

    ranks = np.array(
        [table[:, (GO, *s[:-1]), s].sum(axis=1) / ((5 + len(words_of(s))) / 6) ** penalty for s in all_sequences]
    )
    np.testing.assert_allclose(best_rank(len(all_sequences), 1), ranks.max(axis=0), rtol=1e-4)
    np.testing.assert_array_equal(best_rank(4, 1), best_rank(4, 4))


@settings(max_examples=10, deadline=None)
@given(words=st.integers(4, 6), steps=st.integers(2, 4), seed=st.integers(0, 10**6), n=st.integers(1, 3))
def test_no_repeat_ngram(table_model: Any, words: int, steps: int, seed: int, n: int) -> None:
    """The hypotheses are all sequences without a repeated n-gram, each with the score of its words."""
    model = table_model(words, steps, [seed, seed + 1])
    allowed = [
        sequence
        for sequence in model.all_sequences()
        if max(Counter(ngrams(words_of(sequence), n)).values(), default=1) == 1
    ]
    width = len(model.all_sequences())
    hypotheses = model.beam(width, width, logit_rules=[no_repeat_ngram_rule(n)])
    for row in range(2):
        assert set(sequences(hypotheses, row)) == set(allowed)
        expected = sorted((model.score(row, sequence) for sequence in allowed), reverse=True)
        np.testing.assert_allclose(hypotheses.scores[row, : len(expected)], expected, atol=1e-4)


@settings(max_examples=10, deadline=None)
@given(words=st.integers(4, 6), steps=st.integers(1, 4), seed=st.integers(0, 10**6), min_length=st.integers(1, 4))
def test_min_length(table_model: Any, words: int, steps: int, seed: int, min_length: int) -> None:
    model = table_model(words, steps, [seed])
    allowed = [s for s in model.all_sequences() if s[-1] != EOS or len(words_of(s)) >= min_length]
    width = len(model.all_sequences())
    hypotheses = model.beam(width, width, logit_rules=[min_length_rule(min_length)])
    assert set(sequences(hypotheses, 0)) == set(allowed)


@settings(max_examples=15, deadline=None)
@given(words=st.integers(5, 8), steps=st.integers(1, 4), seed=st.integers(0, 10**6), penalty=st.floats(0.2, 3))
def test_length_penalty_with_a_narrow_beam(table_model: Any, words: int, steps: int, seed: int, penalty: float) -> None:
    """Against a plain beam search that lists all continuations of all hypotheses."""
    model, width = table_model(words, steps, [seed]), 3

    def rank(pair: tuple[tuple[int, ...], float]) -> float:
        return pair[1] / ((5 + len(words_of(pair[0]))) / 6) ** penalty

    beam: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    for _ in range(steps):
        candidates = [pair for pair in beam if pair[0] and pair[0][-1] == EOS]
        running = [pair[0] for pair in beam if not pair[0] or pair[0][-1] != EOS]
        longer = [(*sequence, word) for sequence in running for word in range(words)]
        candidates += [(sequence, model.score(0, sequence)) for sequence in longer]
        candidates = [pair for pair in candidates if pair[1] > NEG_INF]
        beam = sorted(candidates, key=rank, reverse=True)[:width]
    hypotheses = model.beam(width, width, length_penalty=penalty)
    assert sequences(hypotheses, 0) == [sequence for sequence, _ in beam]
    np.testing.assert_allclose(hypotheses.ranks[0, : len(beam)], [rank(pair) for pair in beam], rtol=1e-4, atol=1e-5)


@settings(max_examples=10, deadline=None)
@given(words=st.integers(5, 8), steps=st.integers(2, 4), seed=st.integers(0, 10**6))
def test_diverse_beam_search(table_model: Any, words: int, steps: int, seed: int) -> None:
    """Against the paper's algorithm: group by group, penalizing words that previous groups have chosen."""
    model, size, groups, diversity = table_model(words, steps, [seed]), 2, 3, 1.5
    beams: list[list[tuple[tuple[int, ...], float]]] = [[((), 0.0)] for _ in range(groups)]
    for _ in range(steps):
        chosen_words: Counter[int] = Counter()
        for group in range(groups):
            candidates = []
            for sequence, score in beams[group]:
                if sequence and sequence[-1] == EOS:
                    candidates.append((sequence, score, score, None))
                    continue
                for word in range(words):
                    total = model.score(0, (*sequence, word))
                    if total > NEG_INF:
                        candidates.append(((*sequence, word), total, total - diversity * chosen_words[word], word))
            candidates.sort(key=lambda candidate: -candidate[2])
            beams[group] = [(sequence, score) for sequence, score, _, _ in candidates[:size]]
            chosen_words.update(word for _, _, _, word in candidates[:size] if word is not None)
    expected = sorted({pair for beam in beams for pair in beam}, key=lambda pair: -pair[1])
    hypotheses = model.beam(size * groups, size * groups, groups=groups, diversity=diversity)
    assert set(sequences(hypotheses, 0)) == {sequence for sequence, _ in expected}
    np.testing.assert_allclose(hypotheses.scores[0, : len(expected)], [score for _, score in expected], atol=1e-4)


def test_repetition_penalty_by_hand() -> None:
    """Words 4 (logit 2) and 5 (logit -1) are in the history: 2 / 1.5 and -1 · 1.5; other logits are unpenalized."""
    logits = tf.constant([[0.5, 0.5, 0.1, 0.2, 2.0, -1.0, 1.0]])
    output = StepOutput(logits, log_normalizer(logits), (), tf.zeros([1, 0]))
    penalized = repetition_penalty_rule(1.5)(output, tf.constant([[4, 5, 4, PAD]]), tf.constant(3))
    expected = np.array([[0.5, 0.5, 0.1, 0.2, 2 / 1.5, -1.5, 1.0]])
    np.testing.assert_allclose(penalized.logits, expected, rtol=1e-6)
    np.testing.assert_allclose(penalized.normalizer, np.log(np.exp(expected).sum(axis=1)), rtol=1e-6)


# sampling


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """The statistic minus its expectation, in standard deviations; words of probability 0 must not occur."""
    assert not np.any(counts[probabilities == 0])
    expected = probabilities[probabilities > 0] * counts.sum()
    statistic = np.sum((counts[probabilities > 0] - expected) ** 2 / expected)
    degrees = len(expected) - 1  # of freedom
    assert degrees
    return float((statistic - degrees) / math.sqrt(2 * degrees))


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, None, None), (0.5, None, None), (2.0, 4, None), (1.0, None, 0.8), (1.0, 5, 0.9)],
)
def test_sampled_words_follow_the_distribution(temperature: float, top_k: Any, top_p: Any) -> None:
    samples, size = 20_000, 12
    logits = np.random.default_rng(3).normal(size=size)
    p = np.exp(logits / temperature) / np.exp(logits / temperature).sum()
    kept = sorted(range(size), key=lambda word: -p[word])[: top_k or size]
    if top_p is not None:
        renormalized = p[kept] / p[kept].sum()
        kept = [word for rank, word in enumerate(kept) if renormalized[:rank].sum() < top_p]
    expected = np.where(np.isin(np.arange(size), kept), p, 0)
    expected /= expected.sum()
    distribution = truncated_softmax(temperature, top_k or ALL_WORDS, top_p or ALL_PROBABILITY)(
        tf.constant(logits[np.newaxis], tf.float32)
    )
    np.testing.assert_allclose(distribution[0], expected, rtol=1e-5, atol=1e-8)
    assert set(np.flatnonzero(distribution[0])) == set(kept)

    uniform = uniform_numbers(7, np.zeros([1, 3], np.int32), samples, 1).reshape(-1)
    words = sample_words(tf.repeat(distribution, samples, axis=0), tf.constant(uniform)).numpy()
    assert chi_square(np.bincount(words, minlength=size), expected) < 4


def test_the_lowest_temperature_samples_the_most_probable_word() -> None:
    parameters = SearchParameters.of_settings(Decoding(method="sample", temperature=1e-38))
    logits = np.array([[-50.0, 80.0, 79.0, NEG_INF]], np.float32)
    expected = [[0.0, 1.0, 0.0, 0.0]]
    np.testing.assert_array_equal(truncated_softmax(parameters.temperature)(tf.constant(logits)), expected)
    np.testing.assert_array_equal(portable_sampling.truncated_softmax(logits, parameters), expected)


def test_a_row_without_any_word_gets_one_that_exists() -> None:
    nothing, uniform = np.full([2, 5], np.nan, np.float32), np.array([0.0, 0.7])
    assert sample_words(tf.constant(nothing), tf.constant(uniform)).numpy().tolist() == [4, 4]
    assert portable_sampling.sample_words(nothing, uniform).tolist() == [4, 4]


@given(seed=st.integers(0, 10**6), k=st.integers(1, 8), ties=st.booleans())
def test_top_k_and_top_p_keep_the_most_probable_words(seed: int, k: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    logits = (rng.integers(0, 3, 8) if ties else rng.normal(size=8)).astype(np.float32)
    order = sorted(range(8), key=lambda word: (-logits[word], word))
    probabilities = truncated_softmax(1.0, k)(tf.constant(logits[np.newaxis]))[0].numpy()
    assert set(np.flatnonzero(probabilities)) == set(order[:k])
    p = np.exp(logits.astype(np.float64))
    p /= p.sum()
    sums = np.cumsum(p[order])
    p_limit = float(rng.uniform(0.05, 0.99))
    if np.min(np.abs(sums - p_limit)) > 1e-5:  # otherwise rounding would decide
        probabilities = truncated_softmax(1.0, top_p=p_limit)(tf.constant(logits[np.newaxis]))[0].numpy()
        assert set(np.flatnonzero(probabilities)) == set(order[: int(np.searchsorted(sums, p_limit)) + 1])


def test_sampled_replies_follow_the_distribution(table_model: Any) -> None:
    """20,000 replies of a table model: their frequencies and scores are those of the model."""
    model = table_model(5, 2, [11])
    all_sequences = model.all_sequences()
    probabilities = np.exp([model.score(0, sequence) for sequence in all_sequences])
    np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-5)
    uniform = uniform_numbers(5, np.zeros([1, 4], np.int32), 20_000, 2)
    hypotheses = sampling_search(model.inputs(), tf.constant(uniform), truncated_softmax(1.0))
    hypotheses = Hypotheses(*(field.numpy() for field in hypotheses))
    sampled = sequences(hypotheses, 0)
    counts = Counter(sampled)
    assert chi_square(np.array([counts[sequence] for sequence in all_sequences]), probabilities) < 4
    for n in range(0, 20_000, 997):
        assert hypotheses.scores[0, n] == pytest.approx(model.score(0, sampled[n]), abs=1e-4)


def test_the_first_of_several_samples_is_a_fair_one(table_model: Any) -> None:
    """Its frequencies are those of the model. The most probable of five samples would be a likely reply too often."""
    model = table_model(5, 2, [11])
    all_sequences = model.all_sequences()
    probabilities = np.exp([model.score(0, sequence) for sequence in all_sequences])
    rows = [[number, 0] for number in range(5_000)]
    uniform = uniform_numbers(5, np.array(rows, np.int32), 5, 2)
    inputs = model.inputs()
    state = tf.nest.map_structure(lambda part: tf.repeat(part, len(rows), axis=0), (inputs.state, inputs.memory))
    hypotheses = sampling_search(
        inputs._replace(state=state[0], memory=state[1]), tf.constant(uniform), truncated_softmax(1.0)
    )
    words, lengths = hypotheses.words.numpy(), hypotheses.lengths.numpy()
    counts = Counter(tuple(words[row, 0, : lengths[row, 0]].tolist()) for row in range(len(rows)))
    assert chi_square(np.array([counts[sequence] for sequence in all_sequences]), probabilities) < 4


def test_uniform_numbers_depend_on_seed_and_utterance() -> None:
    source = np.random.default_rng(0).integers(4, 30, [5, 7]).astype(np.int32)
    together = uniform_numbers(3, source, 2, 6)
    for row in range(5):
        np.testing.assert_array_equal(together[row], uniform_numbers(3, source[row : row + 1], 2, 6)[0])
    assert np.any(together != uniform_numbers(4, source, 2, 6))
    assert np.any(together[0] != together[1])
    assert ((together >= 0) & (together < 1)).all()


# settings


@pytest.mark.parametrize(
    ("decoding", "message"),
    [
        ({"temperature": 0.5}, "temperature applies to method sample only"),
        ({"method": "beam", "top_p": 0.9}, "top_p applies to method sample only"),
        ({"length_penalty": 1.0}, "length_penalty applies to method beam only"),
        (
            {"method": "beam", "beam_width": 10, "beam_groups": 3},
            "does not divide evenly into 3 beam_groups",
        ),
        ({"replace_unknown": True}, "replace_unknown requires allow_unknown"),
        ({"method": "sample", "rerank": "anti_language_model"}, "rerank applies to method beam only"),
        ({"method": "beam", "rerank": "bidirectional"}, "requires backward_run"),
        ({"method": "sample", "top_p": 0.0}, "decoding.top_p"),
    ],
)
def test_contradictory_settings_are_rejected(decoding: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config({"name": "x", "data": {"train": "t"}, "decoding": decoding}, where="test")


def rules_of(decoding: Decoding) -> list[LogitRule]:
    return configured_rules(SearchParameters.of_settings(decoding))


def test_special_words_are_forbidden_by_default() -> None:
    logits = tf.constant([[9.0, 9.0, 0.0, 9.0, 1.0]])
    output = StepOutput(logits, log_normalizer(logits), (), tf.zeros([1, 0]))
    rules = rules_of(Decoding(method="sample"))
    output = apply_rules(rules, output, tf.zeros([1, 4], tf.int32), tf.constant(0))
    assert set(output.forbidden) == {PAD, GO, UNKNOWN}


def test_rules_are_those_of_the_settings() -> None:
    """After 5 6 5: no end before four words, no pair of words twice, and words of the history are less probable."""
    logits = tf.fill([1, 8], 1.5)
    output = StepOutput(logits, log_normalizer(logits), (), tf.zeros([1, 0]))
    rules = rules_of(Decoding(min_length=4, no_repeat_ngram_size=2, repetition_penalty=3.0, allow_unknown=True))
    output = apply_rules(rules, output, tf.constant([[5, 6, 5, PAD, PAD]]), tf.constant(3))
    assert set(output.forbidden) == {PAD, GO}
    np.testing.assert_allclose(output.logits[0, 2:], [NEG_INF, 1.5, 1.5, 0.5, NEG_INF, 1.5])
    assert len(rules_of(Decoding())) == 1
