"""Metrics against hand-computed values."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.config import parse_config
from seq2seq_chat.metrics.distance import SentenceDistances, jensen_shannon, training_utterances
from seq2seq_chat.metrics.ngrams import Diversity
from seq2seq_chat.metrics.sent2vec import Arguments, Sent2Vec
from seq2seq_chat.runs.run import create_run
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary


def toy_vectors() -> Sent2Vec:
    """a = (1, 0), b = (0, 1), the bigram a b = (2, 2), all other bigrams (0, 0)."""
    vectors = np.zeros((2 + 50, 2), np.float32)
    vectors[:2] = [[1, 0], [0, 1]]
    vectors[2 + (0 * 116049371 + 1) % 50] = [2, 2]
    return Sent2Vec(Arguments(dim=2, bucket=50), {"a": 0, "b": 1}, vectors)


def test_diversity_by_hand() -> None:
    """a b a | a b | (empty): 5 words, 2 of them different; 3 bigrams, 2 of them different."""
    diversity = Diversity()
    diversity.add(["a b a", "a b"])
    diversity.add([""])
    assert diversity.distinct_1 == pytest.approx(2 / 5)
    assert diversity.distinct_2 == pytest.approx(2 / 3)
    assert diversity.mean_length == pytest.approx(5 / 3)
    assert diversity.distinct_replies == 1
    assert diversity.entropy == pytest.approx(-(0.6 * math.log2(0.6) + 0.4 * math.log2(0.4)))


def test_most_frequent_replies_by_hand() -> None:
    diversity = Diversity()
    diversity.add(["x"] * 5 + ["y"] * 3 + ["b", "a"])
    assert diversity.most_frequent(3) == [("x", 0.5), ("y", 0.3), ("a", 0.1)]
    assert diversity.most_frequent_share(2) == pytest.approx(0.8)


def test_diversity_without_replies_is_none() -> None:
    diversity = Diversity()
    assert diversity.distinct_1 is diversity.distinct_2 is diversity.mean_length is diversity.entropy is None
    assert diversity.most_frequent_share() is None
    diversity.add(["", ""])
    assert (diversity.distinct_1, diversity.mean_length, diversity.most_frequent_share()) == (None, 0, 1)


def test_distance_by_hand() -> None:
    """a is (1, 0) and a b is ((1, 0) + (0, 1) + (2, 2)) / 3 = (1, 1): distance 1, angle 45°."""
    blocks = [(["a"], ["a b"]), (["a", ""], ["b", "a"])]  # then distances √2 (angle 90°) and 1 (zero vector, no angle)
    distances = SentenceDistances.of_blocks(toy_vectors(), blocks)
    assert distances.euclidean == pytest.approx([1, math.sqrt(2), 1])
    assert distances.cosine == pytest.approx([math.sqrt(0.5), 0, 0], abs=1e-12)
    assert distances.means() == pytest.approx(((2 + math.sqrt(2)) / 3, math.sqrt(0.5) / 3))
    assert distances.select(np.array([True, False, False])).means() == pytest.approx((1, math.sqrt(0.5)))
    assert distances.select(np.zeros(3, bool)).means() == (None, None)


def test_vectors_are_trained_on_the_known_words_of_targets(tmp_path: Path) -> None:
    """Of evenly spaced ones, if there are many."""
    (tmp_path / "train.txt").write_text("a b\nb x a\nc\nx\n", encoding="utf-8")
    config = parse_config({"name": "new", "data": {"train": str(tmp_path / "train.txt")}}, "x")
    run = create_run(tmp_path, config, Codecs.of_words(Vocabulary([*SPECIAL_WORDS, "a", "b", "c"])), {})
    assert list(training_utterances(run, 9)) == [["b", "a"], ["c"], []]
    assert list(training_utterances(run, 2)) == [["b", "a"], ["c"]]


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
