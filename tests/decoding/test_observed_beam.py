"""The observable beam search over handmade and random tables: results by brute force, fates of words by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.data.vocabulary import EOS, GO
from seq2seq_chat.decoding.hypotheses import StepOutput
from seq2seq_chat.decoding.logit_rules import LogitRule, no_repeat_ngram_rule
from seq2seq_chat.decoding.observed_beam import Proposals, Propose, observed_beam_search, propose_words
from seq2seq_chat.decoding.search import SearchInputs
from seq2seq_chat.decoding.search_steps import SearchStep


def proposer(inputs: SearchInputs) -> Propose:
    """The model of a search that is called without a graph."""
    state = inputs.state

    def propose(history: np.ndarray, parents: np.ndarray, t: int, count: int, word: int) -> Proposals:
        nonlocal state
        scalars = [tf.constant(value) for value in (t, count, word)]
        fields, state = propose_words(
            inputs._replace(state=state), tf.constant(history), tf.constant(parents), *scalars
        )
        return Proposals(*(field.numpy() for field in fields))

    return propose


def search(inputs: SearchInputs, **options: Any) -> list[SearchStep]:
    return list(observed_beam_search(proposer(inputs), inputs.steps, **options))


def fates(step: SearchStep) -> list[list[tuple[int, str]]]:
    """The words of each expansion, best first, and what became of them."""
    return [[(one.word, one.fate) for one in expansion.candidates] for expansion in step.expansions]


def by_last_word(
    next_words: dict[int, Sequence[float]], steps: int, *rules: LogitRule, likelihood: float = 1e-30
) -> SearchInputs:
    """A model that knows only the last word; next_words: probabilities of all words; others are followed by the end."""
    size = len(next(iter(next_words.values())))
    table = np.full([size, size], likelihood)
    table[:, EOS] = 1
    for word, probabilities in next_words.items():
        table[word] += probabilities - np.eye(size)[EOS]
    logits = tf.constant(np.log(np.maximum(table, likelihood)), tf.float32)

    def step(words: tf.Tensor, state: Any, memory: Any) -> StepOutput:
        rows = tf.shape(words)[0]
        return StepOutput(tf.gather(logits, words), tf.zeros([rows]), state, tf.zeros([rows, 0]))

    return SearchInputs(step, tf.zeros([1]), (), steps, 0, rules)


@settings(max_examples=15, deadline=None)
@given(words=st.integers(4, 6), steps=st.integers(1, 3), seed=st.integers(0, 10**6))
def test_a_beam_as_wide_as_the_search_space_equals_brute_force(
    table_model: Any, words: int, steps: int, seed: int
) -> None:
    model = table_model(words, steps, [seed])
    sequences = model.all_sequences()
    *_, last = search(model.inputs(), width=len(sequences), n_best=len(sequences))
    expected = sorted(sequences, key=lambda sequence: -model.score(0, sequence))
    assert [node.words for node in last.beam] == expected
    for node in last.beam:
        assert node.score == pytest.approx(model.score(0, node.words), abs=1e-4)
        histories = [1]  # that the model saw: its attention names them
        for word in node.words[:-1]:
            histories.append(histories[-1] * words + word)
        assert [int(row[0]) for row in node.attention] == histories


@settings(max_examples=15, deadline=None)
@given(
    words=st.integers(5, 7),
    steps=st.integers(2, 4),
    seed=st.integers(0, 10**6),
    width=st.integers(1, 5),
    n_best=st.integers(1, 5),
    penalty=st.sampled_from([0.0, 1.0, 3.0]),
)
def test_narrow_beams_equal_the_compiled_search(
    table_model: Any, words: int, steps: int, seed: int, width: int, n_best: int, penalty: float
) -> None:
    model, n_best = table_model(words, steps, [seed]), min(n_best, width)
    expected = model.beam(width, n_best=n_best, length_penalty=penalty)
    *_, last = search(model.inputs(), width=width, n_best=n_best, length_penalty=penalty)
    found = last.beam[:n_best]
    assert [node.words for node in found] == [
        tuple(expected.words[0, n, : expected.lengths[0, n]].tolist())
        for n in range(n_best)
        if np.isfinite(expected.scores[0, n])
    ]
    np.testing.assert_allclose([node.rank for node in found], expected.ranks[0, : len(found)], atol=1e-4)


def test_a_longer_hypothesis_may_overtake_the_best_that_has_ended() -> None:
    """By hand, with length penalty 1: the end has rank 6 / 5 log 0.5 = -0.83; 3 has log 0.4 = -0.92, 3 4 EOS -0.79."""
    inputs = by_last_word({GO: [0, 0, 0.5, 0.4, 0.1], 3: [0, 0, 0, 0, 1]}, steps=3)
    first, *_, last = search(inputs, width=2, n_best=1, length_penalty=1.0)
    assert first.beam[0].words == (EOS,)
    assert last.beam[0].words == (3, 4, EOS)
    assert last.beam[0].rank == pytest.approx(math.log(0.4) * 6 / 7, rel=1e-5)


@settings(max_examples=15, deadline=None)
@given(words=st.integers(5, 7), steps=st.integers(2, 4), seed=st.integers(0, 10**6), position=st.integers(0, 2))
def test_with_a_forced_prefix_the_best_is_the_best_of_those_that_start_with_it(
    table_model: Any, words: int, steps: int, seed: int, position: int
) -> None:
    model = table_model(words, steps, [seed])
    prefix = tuple(np.random.default_rng(seed).integers(3, words, min(position, steps - 1)).tolist())
    sequences = [sequence for sequence in model.all_sequences() if sequence[: len(prefix)] == prefix]
    *_, last = search(model.inputs(), width=len(sequences), n_best=len(sequences), prefix=prefix)
    assert [node.words for node in last.beam] == sorted(sequences, key=lambda one: -model.score(0, one))


GARDEN = {GO: [0, 0, 0, 0, 0.6, 0.4], 4: [0, 0, 0.4, 0.3, 0.3, 0], 5: [0, 0, 0.9, 0.1, 0, 0]}
"""Word 4 has 0.6 and word 5 has 0.4, but after 4 the end has 0.4, and after 5 it has 0.9."""


def test_what_became_of_each_word() -> None:
    """By hand: 4 EOS has 0.24, 5 EOS 0.36, 4 3 and 4 4 have 0.18, 5 3 has 0.04; the beam keeps two."""
    first, second = search(by_last_word(GARDEN, steps=2), width=2, n_best=2)
    assert fates(first)[0][:2] == [(4, "kept"), (5, "kept")]
    assert fates(second)[0][:3] == [(EOS, "kept"), (3, "outranked"), (4, "outranked")]
    assert fates(second)[1][:2] == [(EOS, "kept"), (3, "outranked")]
    assert [node.words for node in second.beam] == [(5, EOS), (4, EOS)]
    candidate = second.expansions[1].candidates[1]
    assert candidate.log_probability == pytest.approx(math.log(0.1), rel=1e-5)
    assert candidate.score == candidate.rank == pytest.approx(math.log(0.4 * 0.1), rel=1e-5)


def test_words_that_a_rule_forbids_are_reported_with_the_probability_of_the_model() -> None:
    _, second, *_ = search(by_last_word(GARDEN, 3, no_repeat_ngram_rule(1)), width=3, n_best=3)
    words = {one.word: one for one in second.expansions[0].candidates}
    assert (words[4].fate, words[3].fate) == ("forbidden", "kept")
    assert words[4].log_probability == pytest.approx(math.log(0.3), rel=1e-5)


def test_other_words_than_a_forced_one_are_not_kept() -> None:
    """Word 3 is forced first, which has hardly any probability."""
    first, second = search(by_last_word(GARDEN, 3, no_repeat_ngram_rule(1)), width=2, n_best=1, prefix=[3])
    (words,) = fates(first)
    assert (3, "kept") in words
    assert {fate for word, fate in words if word != 3} == {"not_forced"}
    assert second.beam[0].words == (3, EOS)
    assert second.beam[0].score == pytest.approx(math.log(1e-30), rel=1e-3)


def test_a_length_penalty_ranks_by_the_score_divided_by_the_divisor() -> None:
    """By hand: the end has 0.5 and divisor 5 / 6, word 3 has 0.48 and divisor 1: -0.83 and -0.73."""
    (step,) = search(by_last_word({GO: [0, 0, 0.5, 0.48, 0.02]}, 1), width=1, n_best=1, length_penalty=1.0)
    end, word = step.expansions[0].candidates[:2]
    assert (end.word, end.fate, word.word, word.fate) == (EOS, "outranked", 3, "kept")
    assert end.rank == pytest.approx(math.log(0.5) * 6 / 5, rel=1e-5)
    assert (word.node.divisor, word.node.rank) == pytest.approx((1, math.log(0.48)), rel=1e-5)


def test_a_forced_end_finishes_the_search() -> None:
    (step,) = search(by_last_word(GARDEN, 3), width=2, n_best=2, prefix=[EOS])
    assert [node.words for node in step.beam] == [(EOS,)]
