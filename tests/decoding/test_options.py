"""Options of the searches: against brute force over all sequences, and sampling against the model's probabilities."""

from __future__ import annotations

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
from seq2seq_chat.corpus.vocabulary import EOS, GO, PAD, UNKNOWN
from seq2seq_chat.decoding.hypotheses import Hypotheses, Step, log_normalizer
from seq2seq_chat.decoding.restrictions import minimum_length, no_repeated_ngrams, penalize_repetition
from seq2seq_chat.decoding.sampling import invert, likelier_words, sampling_search, uniform_draws

NEVER = -float("inf")


def ngrams(sequence: Sequence[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(sequence[i : i + n]) for i in range(len(sequence) - n + 1)]


def words_of(sequence: Sequence[int]) -> list[int]:
    return [word for word in sequence if word != EOS]


def found_sequences(found: Hypotheses, row: int) -> list[tuple[int, ...]]:
    real = [n for n in range(found.scores.shape[1]) if found.scores[row, n] > NEVER]
    return [tuple(int(w) for w in found.words[row, n, : found.lengths[row, n]]) for n in real]


# beams as wide as the space


@settings(max_examples=12, deadline=None)
@given(words=st.integers(4, 6), steps=st.integers(1, 3), seed=st.integers(0, 10**6), penalty=st.floats(0.1, 3))
def test_length_penalty(table_model: Any, words: int, steps: int, seed: int, penalty: float) -> None:
    model = table_model(words, steps, [seed, seed + 1])
    everything = model.all_sequences()
    found = model.beam(len(everything), len(everything), length_penalty=penalty)
    for row in range(2):
        ranks = [model.score(row, s) / ((5 + len(words_of(s))) / 6) ** penalty for s in everything]
        np.testing.assert_allclose(found.ranks[row], sorted(ranks, reverse=True), rtol=1e-4, atol=1e-5)
        scores = [model.score(row, sequence) for sequence in found_sequences(found, row)]
        np.testing.assert_allclose(found.scores[row], scores, atol=1e-4)
    best = model.beam(len(everything), 1, length_penalty=penalty)  # may stop early, and must not be another
    np.testing.assert_allclose(best.ranks[:, 0], found.ranks[:, 0], rtol=1e-5)


@settings(max_examples=10, deadline=None)
@given(words=st.integers(4, 6), steps=st.integers(2, 4), seed=st.integers(0, 10**6), n=st.integers(1, 3))
def test_no_ngram_twice(table_model: Any, words: int, steps: int, seed: int, n: int) -> None:
    """The set of hypotheses is that of all sequences without a repeated n-gram, each with the score of its words."""
    model = table_model(words, steps, [seed, seed + 1])
    allowed = [
        sequence
        for sequence in model.all_sequences()
        if max(Counter(ngrams(words_of(sequence), n)).values(), default=1) == 1
    ]
    width = len(model.all_sequences())
    found = model.beam(width, width, restrictions=[no_repeated_ngrams(n)])
    for row in range(2):
        assert set(found_sequences(found, row)) == set(allowed)
        expected = sorted((model.score(row, sequence) for sequence in allowed), reverse=True)
        np.testing.assert_allclose(found.scores[row, : len(expected)], expected, atol=1e-4)


@settings(max_examples=10, deadline=None)
@given(words=st.integers(4, 6), steps=st.integers(1, 4), seed=st.integers(0, 10**6), least=st.integers(1, 4))
def test_minimum_length(table_model: Any, words: int, steps: int, seed: int, least: int) -> None:
    model = table_model(words, steps, [seed])
    allowed = [s for s in model.all_sequences() if s[-1] != EOS or len(words_of(s)) >= least]
    width = len(model.all_sequences())
    found = model.beam(width, width, restrictions=[minimum_length(least)])
    assert set(found_sequences(found, 0)) == set(allowed)


@settings(max_examples=15, deadline=None)
@given(words=st.integers(5, 8), steps=st.integers(1, 4), seed=st.integers(0, 10**6), penalty=st.floats(0.2, 3))
def test_length_penalty_in_narrow_beams(table_model: Any, words: int, steps: int, seed: int, penalty: float) -> None:
    """Written down word by word, with all continuations of all hypotheses in one list."""
    model, width = table_model(words, steps, [seed]), 3

    def rank(pair: tuple[tuple[int, ...], float]) -> float:
        return pair[1] / ((5 + len(words_of(pair[0]))) / 6) ** penalty

    beam: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    for _ in range(steps):
        candidates = [pair for pair in beam if pair[0] and pair[0][-1] == EOS]
        running = [pair[0] for pair in beam if not pair[0] or pair[0][-1] != EOS]
        longer = [(*sequence, word) for sequence in running for word in range(words)]
        candidates += [(sequence, model.score(0, sequence)) for sequence in longer]
        candidates = [pair for pair in candidates if pair[1] > NEVER]
        beam = sorted(candidates, key=rank, reverse=True)[:width]
    found = model.beam(width, width, length_penalty=penalty)
    assert found_sequences(found, 0) == [sequence for sequence, _ in beam]
    np.testing.assert_allclose(found.ranks[0, : len(beam)], [rank(pair) for pair in beam], rtol=1e-4, atol=1e-5)


@settings(max_examples=10, deadline=None)
@given(words=st.integers(5, 8), steps=st.integers(2, 4), seed=st.integers(0, 10**6))
def test_groups(table_model: Any, words: int, steps: int, seed: int) -> None:
    """Written down as in the paper: group after group, each word less wanted the more groups have taken it."""
    model, size, groups, diversity = table_model(words, steps, [seed]), 2, 3, 1.5
    beams: list[list[tuple[tuple[int, ...], float]]] = [[((), 0.0)] for _ in range(groups)]
    for _ in range(steps):
        taken: Counter[int] = Counter()
        for group in range(groups):
            candidates = []
            for sequence, score in beams[group]:
                if sequence and sequence[-1] == EOS:
                    candidates.append((sequence, score, score, None))
                    continue
                for word in range(words):
                    total = model.score(0, (*sequence, word))
                    if total > NEVER:
                        candidates.append(((*sequence, word), total, total - diversity * taken[word], word))
            candidates.sort(key=lambda candidate: -candidate[2])
            beams[group] = [(sequence, score) for sequence, score, _, _ in candidates[:size]]
            taken.update(word for _, _, _, word in candidates[:size] if word is not None)
    expected = sorted({pair for beam in beams for pair in beam}, key=lambda pair: -pair[1])
    found = model.beam(size * groups, size * groups, groups=groups, diversity=diversity)
    assert set(found_sequences(found, 0)) == {sequence for sequence, _ in expected}
    np.testing.assert_allclose(found.scores[0, : len(expected)], [score for _, score in expected], atol=1e-4)


def test_repetition_penalty_by_hand() -> None:
    """Word 4 (logit 2) and word 5 (logit -1) were said: 2 / 1.5 and -1 · 1.5; the rest stays."""
    logits = tf.constant([[0.5, 0.5, 0.1, 0.2, 2.0, -1.0, 1.0]])
    said = Step(logits, log_normalizer(logits), (), tf.zeros([1, 0]))
    changed = penalize_repetition(1.5)(said, tf.constant([[4, 5, 4, PAD]]), tf.constant(3))
    expected = np.array([[0.5, 0.5, 0.1, 0.2, 2 / 1.5, -1.5, 1.0]])
    np.testing.assert_allclose(changed.logits, expected, rtol=1e-6)
    np.testing.assert_allclose(changed.normalizer, np.log(np.exp(expected).sum(axis=1)), rtol=1e-6)


# sampling


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """The statistic, less its expectation, in standard deviations; words that cannot come must not have come."""
    assert not np.any(counts[probabilities == 0])
    expected = probabilities[probabilities > 0] * counts.sum()
    statistic = np.sum((counts[probabilities > 0] - expected) ** 2 / expected)
    freedom = len(expected) - 1
    assert freedom
    return float((statistic - freedom) / math.sqrt(2 * freedom))


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, None, None), (0.5, None, None), (2.0, 4, None), (1.0, None, 0.8), (1.0, 5, 0.9)],
)
def test_words_are_drawn_as_often_as_the_model_says(temperature: float, top_k: Any, top_p: Any) -> None:
    draws, size = 20_000, 12
    logits = np.random.default_rng(3).normal(size=size)
    p = np.exp(logits / temperature) / np.exp(logits / temperature).sum()
    kept = sorted(range(size), key=lambda word: -p[word])[: top_k or size]
    if top_p is not None:
        inside = p[kept] / p[kept].sum()
        kept = [word for place, word in enumerate(kept) if inside[:place].sum() < top_p]
    expected = np.where(np.isin(np.arange(size), kept), p, 0)
    expected /= expected.sum()
    distribution = likelier_words(temperature, top_k, top_p)(tf.constant(logits[np.newaxis], tf.float32))
    np.testing.assert_allclose(distribution[0], expected, rtol=1e-5, atol=1e-8)
    assert set(np.flatnonzero(distribution[0])) == set(kept)

    uniform = uniform_draws(7, np.zeros([1, 3], np.int32), draws, 1).reshape(-1)
    words = invert(tf.repeat(distribution, draws, axis=0), tf.constant(uniform)).numpy()
    assert chi_square(np.bincount(words, minlength=size), expected) < 4


@given(seed=st.integers(0, 10**6), k=st.integers(1, 8), equal=st.booleans())
def test_top_k_and_top_p_keep_exactly_these_words(seed: int, k: int, equal: bool) -> None:
    rng = np.random.default_rng(seed)
    logits = (rng.integers(0, 3, 8) if equal else rng.normal(size=8)).astype(np.float32)
    order = sorted(range(8), key=lambda word: (-logits[word], word))
    found = likelier_words(1.0, k, None)(tf.constant(logits[np.newaxis]))[0].numpy()
    assert set(np.flatnonzero(found)) == set(order[:k])
    p = np.exp(logits.astype(np.float64))
    p /= p.sum()
    sums = np.cumsum(p[order])
    share = float(rng.uniform(0.05, 0.99))
    if np.min(np.abs(sums - share)) > 1e-5:  # where rounding cannot decide
        found = likelier_words(1.0, None, share)(tf.constant(logits[np.newaxis]))[0].numpy()
        assert set(np.flatnonzero(found)) == set(order[: int(np.searchsorted(sums, share)) + 1])


def test_whole_replies_are_drawn_as_often_as_the_model_says(table_model: Any) -> None:
    """20,000 replies of a model with memory: their frequencies, scores and attention are the model's."""
    model = table_model(5, 2, [11])
    everything = model.all_sequences()
    probabilities = np.exp([model.score(0, sequence) for sequence in everything])
    np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-5)
    draws = uniform_draws(5, np.zeros([1, 4], np.int32), 20_000, 2)
    found = sampling_search(
        model.step,
        *model.start(),
        draws=tf.constant(draws),
        batch=tf.constant(1),
        choose=likelier_words(1.0, None, None),
        steps=2,
        source_steps=2,
    )
    found = Hypotheses(*(field.numpy() for field in found))
    sequences = found_sequences(found, 0)
    counts = Counter(sequences)
    assert chi_square(np.array([counts[sequence] for sequence in everything]), probabilities) < 4
    for n in range(0, 20_000, 997):
        assert found.scores[0, n] == pytest.approx(model.score(0, sequences[n]), abs=1e-4)
    assert list(found.scores[0]) == sorted(found.scores[0], reverse=True)


def test_draws_belong_to_seed_and_utterance() -> None:
    source = np.random.default_rng(0).integers(4, 30, [5, 7]).astype(np.int32)
    together = uniform_draws(3, source, 2, 6)
    for row in range(5):
        np.testing.assert_array_equal(together[row], uniform_draws(3, source[row : row + 1], 2, 6)[0])
    assert np.any(together != uniform_draws(4, source, 2, 6))
    assert np.any(together[0] != together[1])
    assert ((together >= 0) & (together < 1)).all()


# settings that make no sense together


@pytest.mark.parametrize(
    ("decoding", "told"),
    [
        ({"temperature": 0.5}, "temperature is used by method sample only"),
        ({"method": "beam", "top_p": 0.9}, "top_p is used by method sample only"),
        ({"length_penalty": 1.0}, "length_penalty is used by method beam only"),
        ({"method": "beam", "beam_width": 10, "beam_groups": 3}, "does not divide the beam_width of 10"),
        ({"replace_unknown": True}, "has nothing to replace"),
        ({"method": "sample", "rerank": "anti_language_model"}, "rerank is used by method beam only"),
        ({"method": "beam", "rerank": "bidirectional"}, "needs a backward_run"),
        ({"method": "sample", "top_p": 0.0}, "decoding.top_p"),
    ],
)
def test_what_is_refused(decoding: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        parse_config({"name": "x", "data": {"train": "t"}, "decoding": decoding}, where="test")


def test_special_words_never_come_whatever_the_method() -> None:
    assert Decoding().allow_unknown is False
    from seq2seq_chat.decoding.restrictions import restrict, restrictions

    logits = tf.constant([[9.0, 9.0, 0.0, 9.0, 1.0]])
    said = restrict(
        Step(logits, log_normalizer(logits), (), tf.zeros([1, 0])),
        restrictions(Decoding(method="sample")),
        tf.zeros([1, 4], tf.int32),
        tf.constant(0),
    )
    assert set(said.forbidden) == {PAD, GO, UNKNOWN}
