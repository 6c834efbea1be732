"""Metrics against hand-computed values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.metrics.ngrams import Diversity, jensen_shannon
from seq2seq_chat.metrics.sent2vec import Arguments, Sent2Vec
from seq2seq_chat.metrics.sentence_vectors import SentenceDistances


def toy_vectors() -> Sent2Vec:
    """a = (1, 0), b = (0, 1), the bigram a b = (2, 2), all other bigrams (0, 0)."""
    vectors = np.zeros((2 + 50, 2), np.float32)
    vectors[:2] = [[1, 0], [0, 1]]
    vectors[2 + (0 * 116049371 + 1) % 50] = [2, 2]
    return Sent2Vec(Arguments(dim=2, bucket=50), {"a": 0, "b": 1}, vectors)


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


def test_distance_by_hand() -> None:
    """a is (1, 0) and a b is ((1, 0) + (0, 1) + (2, 2)) / 3 = (1, 1): distance 1, angle 45°."""
    blocks = [(["a"], ["a b"]), (["a", ""], ["b", "a"])]  # then distances √2 (angle 90°) and 1 (zero vector, no angle)
    distances = SentenceDistances.of_blocks(toy_vectors(), blocks)
    assert distances.euclidean == pytest.approx([1, math.sqrt(2), 1])
    assert distances.cosine == pytest.approx([math.sqrt(0.5), 0, 0], abs=1e-12)
    assert distances.means() == pytest.approx(((2 + math.sqrt(2)) / 3, math.sqrt(0.5) / 3))
    assert distances.select(np.array([True, False, False])).means() == pytest.approx((1, math.sqrt(0.5)))
    assert distances.select(np.zeros(3, bool)).means() == (None, None)


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
