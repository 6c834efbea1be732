"""N-gram counts and divergences against hand-computed and brute-force values, and their figures."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.analysis.figures.ngrams import draw_divergences, draw_rank_frequency, draw_top_ngrams
from seq2seq_chat.analysis.metrics import ngrams
from seq2seq_chat.analysis.metrics.ngrams import NgramProfile, count_ngrams, divergence, ngram_text, text_profile
from seq2seq_chat.data.vocabulary import SPECIAL_WORDS, Vocabulary

VOCABULARY = Vocabulary([*SPECIAL_WORDS, "a", "b", "c"])


@given(st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=12), st.integers(1, 3), st.integers(1, 4))
def test_counts_equal_brute_force(sentences: list[list[int]], n: int, block_size: int) -> None:
    expected = Counter(tuple(s[i : i + n]) for s in sentences for i in range(len(s) - n + 1))
    default, ngrams.BLOCK_SIZE = ngrams.BLOCK_SIZE, block_size
    try:
        result = count_ngrams(sentences, n, 5)
    finally:
        ngrams.BLOCK_SIZE = default
    decoded = {
        tuple(int(code) // 5**place % 5 for place in reversed(range(n))): int(count)
        for code, count in zip(result.codes, result.counts, strict=True)
    }
    assert decoded == dict(expected)
    assert result.total == expected.total()


def test_profile_of_texts() -> None:
    profile = text_profile("x", ["A b!", "", "a zebra b"], VOCABULARY, "word")
    words, bigrams = profile.orders[1], profile.orders[2]
    assert [ngram_text(code, 1, VOCABULARY) for code in words.top(9)] == ["<unknown>", "a", "b"]  # twice each
    assert {ngram_text(code, 2, VOCABULARY) for code in bigrams.codes} == {
        *("a b", "b <unknown>", "a <unknown>", "<unknown> b")
    }
    np.testing.assert_allclose(words.shares(np.array([4, 5, 6])), [2 / 6, 2 / 6, 0])


def test_divergence_of_texts_by_hand() -> None:
    first = count_ngrams([[4, 4, 5, 5]], 1, 7)
    assert divergence(first, count_ngrams([[5, 4]], 1, 7)) == 0
    assert divergence(first, count_ngrams([[6, 6]], 1, 7)) == pytest.approx(1)
    assert divergence(first, count_ngrams([[]], 1, 7)) is None


def test_figures_of_one_word_and_of_none() -> None:
    empty = NgramProfile("empty", {n: count_ngrams([], n, 7) for n in ngrams.ORDERS})
    one = NgramProfile("one", {n: count_ngrams([[4]], n, 7) for n in ngrams.ORDERS})
    assert len(draw_rank_frequency([empty, one]).axes) == 2
    assert len(draw_top_ngrams(one, empty, VOCABULARY).axes[0].patches) == 2
    figure = draw_divergences([10], [{1: None, 2: 0.5}], {1: 0.25, 2: None})
    assert sorted(tuple(line.get_ydata()) for line in figure.axes[0].lines) == [(0.25, 0.25), (0.5,)]
