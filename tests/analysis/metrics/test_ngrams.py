"""Counting n-grams and comparing distributions, against counts by hand and by brute force."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.analysis import ngrams
from seq2seq_chat.analysis.ngrams import Language, count_ngrams, divergence, language, ngram_text
from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS, Vocabulary

VOCABULARY = Vocabulary([*SPECIAL_WORDS, "a", "b", "c"])


@given(st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=12), st.integers(1, 3), st.integers(1, 4))
def test_counts_are_those_of_brute_force(sentences: list[list[int]], n: int, at_once: int) -> None:
    expected = Counter(tuple(s[i : i + n]) for s in sentences for i in range(len(s) - n + 1))
    before, ngrams.AT_ONCE = ngrams.AT_ONCE, at_once
    try:
        found = count_ngrams(sentences, n, 5)
    finally:
        ngrams.AT_ONCE = before
    decoded = {
        tuple(int(code) // 5**place % 5 for place in reversed(range(n))): int(count)
        for code, count in zip(found.codes, found.counts, strict=True)
    }
    assert decoded == dict(expected)
    assert found.total == expected.total()


def test_language_of_texts() -> None:
    spoken = language("x", ["A b!", "", "a zebra b"], VOCABULARY, "word")
    words, pairs = spoken.ngrams[1], spoken.ngrams[2]
    assert [ngram_text(code, 1, VOCABULARY) for code in words.top(9)] == ["<unknown>", "a", "b"]  # two of each
    assert {ngram_text(code, 2, VOCABULARY) for code in pairs.codes} == {
        *("a b", "b <unknown>", "a <unknown>", "<unknown> b")
    }
    np.testing.assert_allclose(words.shares(np.array([4, 5, 6])), [2 / 6, 2 / 6, 0])


def test_divergence_of_texts_by_hand() -> None:
    first = count_ngrams([[4, 4, 5, 5]], 1, 7)
    assert divergence(first, count_ngrams([[5, 4]], 1, 7)) == 0
    assert divergence(first, count_ngrams([[6, 6]], 1, 7)) == pytest.approx(1)
    assert divergence(first, count_ngrams([[]], 1, 7)) is None


def test_pictures_of_next_to_nothing() -> None:
    """One word, and none at all, are drawn without a complaint."""
    nothing = Language("nothing", {n: count_ngrams([], n, 7) for n in ngrams.NAMES})
    one = Language("one", {n: count_ngrams([[4]], n, 7) for n in ngrams.NAMES})
    assert len(ngrams.draw_ranks([nothing, one]).axes) == 2
    assert len(ngrams.draw_top(one, nothing, VOCABULARY).axes[0].patches) == 2
    figure = ngrams.draw_divergences([10], {1: [None], 2: [0.5]}, {1: 0.25, 2: None})
    assert sorted(tuple(line.get_ydata()) for line in figure.axes[0].lines) == [(0.25, 0.25), (0.5,)]
