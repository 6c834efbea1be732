"""N-gram counts, divergences and diversity against hand-computed and brute-force values, and their figures."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.metrics import ngrams
from seq2seq_chat.metrics.ngrams import (
    Diversity,
    NgramProfile,
    count_ngrams,
    divergence,
    jensen_shannon,
    ngram_text,
    text_profile,
)
from seq2seq_chat.report.figures.curves import draw_divergences, draw_rank_frequency, draw_top_ngrams
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, UNKNOWN, Vocabulary

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


@given(*[st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=6)] * 2, st.integers(1, 3))
def test_shares_and_divergence_equal_brute_force(first: list[list[int]], second: list[list[int]], n: int) -> None:
    """Of every n-gram, whether it occurs or not."""
    counts = [Counter(tuple(s[i : i + n]) for s in text for i in range(len(s) - n + 1)) for text in (first, second)]
    every = list(itertools.product(range(5), repeat=n))
    shares = np.array([[count[ngram] / max(1, count.total()) for ngram in every] for count in counts])
    found = [count_ngrams(text, n, 5) for text in (first, second)]
    for one, expected in zip(found, shares, strict=True):
        np.testing.assert_allclose(one.shares(np.arange(5**n)), expected)
    if not all(counts):
        assert divergence(*found) is None
        return
    mean = shares.mean(axis=0)
    bits = [np.sum(one[one > 0] * np.log2(one[one > 0] / mean[one > 0])) for one in shares]
    assert divergence(*found) == pytest.approx(sum(bits) / 2, abs=1e-12)


def test_profile_of_texts() -> None:
    profile = text_profile("x", [["a", "b", "!"], [], ["a", "zebra", "b"]], VOCABULARY)
    words, bigrams, trigrams = profile.orders.values()
    assert [ngram_text(code, 1, VOCABULARY) for code in words.top(9)] == ["<unknown>", "a", "b"]  # twice each
    assert {ngram_text(code, 2, VOCABULARY) for code in bigrams.codes} == {
        *("a b", "b <unknown>", "a <unknown>", "<unknown> b")
    }
    assert {ngram_text(code, 3, VOCABULARY) for code in trigrams.codes} == {"a b <unknown>", "a <unknown> b"}
    np.testing.assert_allclose(words.shares(np.array([4, 5, 6])), [2 / 6, 2 / 6, 0])


class LargeVocabulary(Vocabulary):
    """Words that are their ids; the number of trigrams may exceed 64 bits."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def tokens(self, ids: Any) -> list[str]:
        return [str(word) for word in ids]


@pytest.mark.parametrize("size", [100_000, 2_097_151, 2_097_152, 5_000_000])
def test_trigrams_of_a_large_vocabulary(size: int) -> None:
    """Codes do not overflow; the words that have no code are the rarest ones, which count as unknown."""
    words = [word for word in (size - 1, 2_097_150, 2_097_151, 0, 5) if word < size] * 2
    counts = count_ngrams([words], 3, size)
    known = [str(word if word < 2_097_151 else UNKNOWN) for word in words]
    expected = Counter(" ".join(known[start : start + 3]) for start in range(len(known) - 2))
    assert (counts.codes >= 0).all()
    texts = [ngram_text(code, 3, LargeVocabulary(size)) for code in counts.codes]
    assert dict(zip(texts, counts.counts, strict=True)) == expected


def test_divergence_of_texts_by_hand() -> None:
    first = count_ngrams([[4, 4, 5, 5]], 1, 7)
    assert divergence(first, count_ngrams([[5, 4]], 1, 7)) == 0
    assert divergence(first, count_ngrams([[6, 6]], 1, 7)) == pytest.approx(1)
    assert divergence(first, count_ngrams([[]], 1, 7)) is None


def test_figures_of_one_word_and_of_none() -> None:
    empty = NgramProfile("empty", {n: count_ngrams([], n, 7) for n in ngrams.ORDERS})
    one = NgramProfile("one", {n: count_ngrams([[4]], n, 7) for n in ngrams.ORDERS})
    assert len(draw_rank_frequency([empty, one]).axes) == 3
    assert len(draw_top_ngrams(one, empty, VOCABULARY).axes[0].patches) == 2
    figure = draw_divergences([10], [{1: None, 2: 0.5, 3: 0.75}], {1: 0.25, 2: None, 3: None})
    assert sorted(tuple(line.get_ydata()) for line in figure.axes[0].lines) == [(0.25, 0.25), (0.5,), (0.75,)]


def diversity(*replies: str) -> Diversity:
    counts = Diversity()
    for reply in replies:
        counts.add([reply])
    return counts


def test_diversity_by_hand() -> None:
    """a b a | a b | (empty): 5 words, 2 of them different; 3 bigrams, 2 of them different."""
    assert diversity("a b a", "a b", "").metrics() == {
        "distinct_1": pytest.approx(2 / 5),
        "distinct_2": pytest.approx(2 / 3),
        "distinct_replies": 1,
        "words_used": 2,
        "word_entropy_bits": pytest.approx(-(0.6 * math.log2(0.6) + 0.4 * math.log2(0.4))),
        "most_frequent_share": pytest.approx(1),
        "mean_length": pytest.approx(5 / 3),
    }
    assert diversity(*"xxxxxyyyba").most_frequent(3) == [("x", 0.5), ("y", 0.3), ("a", 0.1)]
    assert diversity(*["x"] * 4, *map(str, range(20))).metrics()["most_frequent_share"] == pytest.approx(13 / 24)


def test_diversity_without_replies_is_none() -> None:
    assert {value for key, value in diversity().metrics().items() if key != "words_used"} == {None}
    empty = diversity("", "").metrics()
    assert (empty["distinct_1"], empty["mean_length"], empty["most_frequent_share"]) == (None, 0, 1)


def test_divergence_by_hand() -> None:
    assert jensen_shannon([1, 1], [5, 5]) == 0
    assert jensen_shannon([3, 0], [0, 7]) == pytest.approx(1)
    # p = (1, 0), q = (1/2, 1/2), mixture (3/4, 1/4): (log2 4/3 + (log2 2/3 + log2 2) / 2) / 2
    by_hand = (math.log2(4 / 3) + (math.log2(2 / 3) + math.log2(2)) / 2) / 2
    assert jensen_shannon([1, 0], [1, 1]) == pytest.approx(by_hand)
    assert jensen_shannon([0, 0], [1, 1]) is None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=20))
def test_divergence_is_symmetric_and_between_zero_and_one(counts: list[tuple[int, int]]) -> None:
    first, second = zip(*counts, strict=True)
    forward, backward = jensen_shannon(first, second), jensen_shannon(second, first)
    if sum(first) and sum(second):
        assert forward is not None and forward == pytest.approx(backward, abs=1e-12)
        assert -1e-12 <= forward <= 1 + 1e-12
    else:
        assert forward is None
