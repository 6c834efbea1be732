"""How varied replies are.

distinct-n is the number of different n-grams in all replies over the number of all their n-grams (Li et al. 2016, "A
diversity-promoting objective function for neural conversation models"). It falls as replies are added, so compare it
at equal numbers of samples only.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

MOST_FREQUENT = 10


class Diversity:
    """Counts replies, block by block. What it holds grows with the different replies and n-grams, not with all."""

    def __init__(self) -> None:
        self.replies: Counter[str] = Counter()
        self.unigrams: Counter[str] = Counter()
        self.bigrams: Counter[tuple[str, str]] = Counter()

    def add(self, replies: Iterable[str]) -> None:
        """Count some replies; words are what white space separates."""
        for reply in replies:
            words = reply.split()
            self.replies[" ".join(words)] += 1
            self.unigrams.update(words)
            self.bigrams.update(itertools.pairwise(words))

    @property
    def samples(self) -> int:
        """Replies counted."""
        return self.replies.total()

    @property
    def distinct_1(self) -> float | None:
        """Different words over all words, 0 to 1; None without any word."""
        return _ratio(len(self.unigrams), self.unigrams.total())

    @property
    def distinct_2(self) -> float | None:
        """Different pairs of neighbours over all pairs, 0 to 1; None without any pair."""
        return _ratio(len(self.bigrams), self.bigrams.total())

    @property
    def distinct_replies(self) -> float | None:
        """Different replies over all replies, 0 to 1."""
        return _ratio(len(self.replies), self.samples)

    @property
    def mean_length(self) -> float | None:
        """Words of a reply on average, without the end marker; an empty one has none."""
        return _ratio(self.unigrams.total(), self.samples)

    @property
    def entropy(self) -> float | None:
        """Entropy of the words in bits: log2 of how many equally frequent words would be as varied."""
        total = self.unigrams.total()
        return -sum(n / total * math.log2(n / total) for n in self.unigrams.values()) + 0.0 if total else None

    def most_frequent(self, count: int = MOST_FREQUENT) -> list[tuple[str, float]]:
        """The most frequent replies and their shares, 0 to 1, of equally frequent ones in alphabetical order."""
        ranked = sorted(self.replies.items(), key=lambda item: (-item[1], item[0]))[:count]
        return [(reply, number / self.samples) for reply, number in ranked]

    def share_of_most_frequent(self, count: int = MOST_FREQUENT) -> float | None:
        """Share of the samples that got one of the ``count`` most frequent replies, 0 to 1."""
        return math.fsum(share for _, share in self.most_frequent(count)) if self.samples else None


def jensen_shannon(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Jensen–Shannon divergence of two lists of counts of the same things, in bits: 0 (equal) to 1 (disjoint).

    The mean of both Kullback–Leibler divergences to the mean of the two distributions (Lin 1991). None where one of
    the lists counts nothing.
    """
    p, q = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if not p.sum() or not q.sum():
        return None
    p, q = p / p.sum(), q / q.sum()
    middle = (p + q) / 2

    def divergence(a: np.ndarray) -> float:
        here = a > 0
        return float(np.sum(a[here] * np.log2(a[here] / middle[here])))

    return (divergence(p) + divergence(q)) / 2


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
