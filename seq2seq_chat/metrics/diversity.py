"""Diversity of replies.

distinct-n is the number of distinct n-grams in all replies divided by the number of all their n-grams (Li et al. 2016,
"A diversity-promoting objective function for neural conversation models"). It falls as replies are added, so compare it
only for equal numbers of samples.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable

import numpy as np
from scipy.special import entr

TOP_REPLIES = 10  # the most frequent replies, reported one by one and excluded from the "varied" distances


class Diversity:
    """Counts replies, words and bigrams. Memory grows only with the number of distinct ones."""

    def __init__(self) -> None:
        self.replies: Counter[str] = Counter()
        self.unigrams: Counter[str] = Counter()
        self.bigrams: Counter[tuple[str, str]] = Counter()

    def add(self, replies: Iterable[str]) -> None:
        """Count replies, whose words are separated by white space."""
        for reply in replies:
            words = reply.split()
            self.replies[" ".join(words)] += 1
            self.unigrams.update(words)
            self.bigrams.update(itertools.pairwise(words))

    @property
    def samples(self) -> int:
        """Number of replies."""
        return self.replies.total()

    @property
    def distinct_1(self) -> float | None:
        """Distinct words / words, 0 to 1, or None without words."""
        return _ratio(len(self.unigrams), self.unigrams.total())

    @property
    def distinct_2(self) -> float | None:
        """Distinct bigrams / bigrams, 0 to 1, or None without bigrams."""
        return _ratio(len(self.bigrams), self.bigrams.total())

    @property
    def distinct_replies(self) -> float | None:
        """Distinct replies / replies, 0 to 1."""
        return _ratio(len(self.replies), self.samples)

    @property
    def mean_length(self) -> float | None:
        """Mean number of words in a reply, without the end marker."""
        return _ratio(self.unigrams.total(), self.samples)

    @property
    def entropy(self) -> float | None:
        """Entropy of the unigram distribution in bits."""
        if not self.unigrams:
            return None
        counts = np.array(list(self.unigrams.values()))
        return float(entr(counts / counts.sum()).sum()) / math.log(2)

    def most_frequent(self, count: int = TOP_REPLIES) -> list[tuple[str, float]]:
        """The most frequent replies and their shares, 0 to 1; ties in alphabetical order."""
        ranked = sorted(self.replies.items(), key=lambda item: (-item[1], item[0]))[:count]
        return [(reply, number / self.samples) for reply, number in ranked]

    def most_frequent_share(self, count: int = TOP_REPLIES) -> float | None:
        """Share of all replies that are among the ``count`` most frequent ones, 0 to 1."""
        return math.fsum(share for _, share in self.most_frequent(count)) if self.samples else None

    def metrics(self) -> dict[str, float | None]:
        """All of the above, by the names that ``evaluate`` reports."""
        return {
            "distinct_1": self.distinct_1,
            "distinct_2": self.distinct_2,
            "distinct_replies": self.distinct_replies,
            "words_used": len(self.unigrams),
            "word_entropy_bits": self.entropy,
            "most_frequent_share": self.most_frequent_share(),
            "mean_length": self.mean_length,
        }


def _ratio(part: float, total: float) -> float | None:
    return part / total if total else None
