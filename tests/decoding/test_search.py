"""Greedy and beam search over handmade and random step functions; no network is involved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.data.vocabulary import EOS, GO, PAD
from seq2seq_chat.decoding.beam import beam_search
from seq2seq_chat.decoding.hypotheses import StepOutput
from seq2seq_chat.decoding.result import NEG_INF, Hypotheses
from seq2seq_chat.decoding.search import SearchInputs
from seq2seq_chat.decoding.sequential import sequential_search

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")


def words_of(hypotheses: Hypotheses, row: int, n: int) -> tuple[int, ...]:
    return tuple(int(word) for word in hypotheses.words[row, n, : hypotheses.lengths[row, n]])


def check_consistent(model: Any, hypotheses: Hypotheses) -> None:
    """Check properties of every search: sorted scores are those of the words; nothing follows EOS; no duplicates."""
    for row in range(model.rows):
        sequences = [
            words_of(hypotheses, row, n)
            for n in range(hypotheses.scores.shape[1])
            if hypotheses.scores[row, n] > NEG_INF
        ]
        assert len(set(sequences)) == len(sequences)
        assert list(hypotheses.scores[row]) == sorted(hypotheses.scores[row], reverse=True)
        for n, sequence in enumerate(sequences):
            assert hypotheses.scores[row, n] == pytest.approx(model.score(row, sequence), abs=1e-4)
            assert EOS not in sequence[:-1]
            assert hypotheses.ended[row, n] == (sequence[-1] == EOS)
            assert hypotheses.ended[row, n] or len(sequence) == model.steps
            assert not np.any(hypotheses.words[row, n, len(sequence) :] != PAD)
            history = 1  # the attention of a word is that of its hypothesis, not of another one in the beam
            for t, word in enumerate(sequence):
                assert tuple(hypotheses.attention[row, n, t]) == (history, row)
                history = history * model.words + word


@settings(max_examples=25, deadline=None)
@given(words=st.integers(4, 6), steps=st.integers(1, 3), seed=st.integers(0, 10**6), rows=st.integers(1, 3))
def test_a_beam_as_wide_as_the_search_space_equals_brute_force(
    table_model: Any, words: int, steps: int, seed: int, rows: int
) -> None:
    model = table_model(words, steps, seeds=[seed + row for row in range(rows)])
    all_sequences = model.all_sequences()
    hypotheses = model.beam(width=len(all_sequences), n_best=len(all_sequences))
    check_consistent(model, hypotheses)
    for row in range(rows):
        expected = sorted((model.score(row, sequence) for sequence in all_sequences), reverse=True)
        np.testing.assert_allclose(hypotheses.scores[row], expected, atol=1e-4)
        assert words_of(hypotheses, row, 0) == max(all_sequences, key=lambda sequence: model.score(row, sequence))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(words=st.integers(4, 7), steps=st.integers(1, 4), seed=st.integers(0, 10**6), width=st.integers(1, 6))
def test_narrow_beams_are_consistent_and_independent_of_the_batch(
    table_model: Any, words: int, steps: int, seed: int, width: int
) -> None:
    seeds = [seed, seed + 1, seed + 2]
    together = table_model(words, steps, seeds)
    hypotheses = together.beam(width, n_best=width)
    check_consistent(together, hypotheses)
    row = seed % 3
    alone = table_model(words, steps, [seeds[row]]).beam(width, n_best=width)
    np.testing.assert_array_equal(alone.words[0], hypotheses.words[row])
    np.testing.assert_allclose(alone.scores[0], hypotheses.scores[row], atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(words=st.integers(4, 7), steps=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_a_beam_of_one_is_greedy(table_model: Any, words: int, steps: int, seed: int) -> None:
    model = table_model(words, steps, [seed, seed + 1])
    greedy, beam = model.greedy(), model.beam(width=1, n_best=1)
    check_consistent(model, greedy)
    for greedy_field, beam_field in zip(greedy, beam, strict=True):
        np.testing.assert_allclose(greedy_field, beam_field, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(words=st.integers(4, 7), steps=st.integers(1, 4), seed=st.integers(0, 10**6), width=st.integers(2, 6))
def test_early_stopping_does_not_change_the_best_hypothesis(
    table_model: Any, words: int, steps: int, seed: int, width: int
) -> None:
    model = table_model(words, steps, [seed, seed + 1])
    best, full = model.beam(width, n_best=1), model.beam(width, n_best=width)
    np.testing.assert_array_equal(best.words[:, 0], full.words[:, 0])
    np.testing.assert_allclose(best.scores[:, 0], full.scores[:, 0], atol=1e-6)


def test_beam_search_finds_what_greedy_misses() -> None:
    """By hand: greedy takes word 4 (0.6), after which EOS has 0.4; word 5 (0.4) is followed by EOS with 0.9."""
    next_words = {GO: [0, 0, 0, 0, 0.6, 0.4], 4: [0, 0, 0.4, 0.3, 0.3, 0], 5: [0, 0, 0.9, 0.1, 0, 0]}
    table = np.log(np.array([next_words.get(word, [0, 0, 1, 0, 0, 0]) for word in range(6)], np.float32) + 1e-30)

    def step(words: tf.Tensor, state: Any, memory: Any) -> StepOutput:
        rows = tf.shape(words)[0]
        return StepOutput(tf.gather(tf.constant(table), words), tf.zeros([rows]), state, tf.zeros([rows, 0]))

    inputs = SearchInputs(step, tf.zeros([1]), memory=(), steps=2, source_steps=0)
    greedy = sequential_search(inputs)
    beam = beam_search(inputs, width=2, n_best=2)
    assert greedy.words[0, 0].numpy().tolist() == [4, EOS]
    assert float(greedy.scores[0, 0]) == pytest.approx(math.log(0.6 * 0.4))
    assert beam.words[0].numpy().tolist() == [[5, EOS], [4, EOS]]
    np.testing.assert_allclose(beam.scores[0], np.log([0.4 * 0.9, 0.6 * 0.4]), rtol=1e-5)


def test_a_likely_end_may_rank_behind_a_word() -> None:
    """By hand: the end marker has 0.5 and no words, log 0.5 / (5 / 6) = -0.83; word 3 has 0.48, log 0.48 = -0.73."""
    table = np.log(np.array([0, 0, 0.5, 0.48, 0.02], np.float32) + 1e-30)

    def step(words: tf.Tensor, state: Any, memory: Any) -> StepOutput:
        rows = tf.shape(words)[0]
        return StepOutput(tf.tile(table[np.newaxis], [rows, 1]), tf.zeros([rows]), state, tf.zeros([rows, 0]))

    beam = beam_search(SearchInputs(step, tf.zeros([1]), (), 1, 0), width=1, n_best=1, length_penalty=1.0)
    assert beam.words.numpy().tolist() == [[[3]]]
    assert float(beam.ranks[0, 0]) == pytest.approx(math.log(0.48), rel=1e-5)


def test_search_ends_when_every_hypothesis_has_ended() -> None:
    calls = []

    def step(words: tf.Tensor, state: Any, memory: Any) -> StepOutput:
        calls.append(1)
        ends = tf.one_hot(EOS, 5, on_value=0.0, off_value=NEG_INF)
        rows = tf.shape(words)[0]
        return StepOutput(tf.tile(ends[tf.newaxis], [rows, 1]), tf.zeros([rows]), state, tf.zeros([rows, 0]))

    inputs = SearchInputs(step, tf.zeros([2]), memory=(), steps=30, source_steps=0)
    greedy = sequential_search(inputs)
    assert len(calls) == 1
    beam = beam_search(inputs, width=3, n_best=3)
    assert len(calls) <= 2 + 1
    assert greedy.words.shape == (2, 1, 30)
    assert np.isfinite(beam.scores).sum(axis=1).tolist() == [1, 1], "only one reply is possible"
