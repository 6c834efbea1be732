"""Frequencies of words, bigrams and trigrams in replies, compared with those in the training corpus."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import jensenshannon
from scipy.special import entr

from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.runs.run import Run
from seq2seq_chat.text.vocabulary import UNKNOWN, Vocabulary

MAX_UTTERANCES = 500_000  # counted in the training corpus, evenly spaced
BLOCK_SIZE = 50_000  # utterances counted together
ORDERS = {1: "words", 2: "bigrams", 3: "trigrams"}  # the names of n-grams
MAX_BASE = 2_097_151  # the largest integer whose cube, the number of trigrams, is less than 2**63


class NgramCounts(NamedTuple):
    """Occurrences of n-grams. The code of an n-gram is its word ids read as digits to the base ``code_base``."""

    codes: np.ndarray  # int64 [distinct n-grams], ascending
    counts: np.ndarray  # int64 [distinct n-grams]

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def shares(self, codes: np.ndarray) -> np.ndarray:
        """Relative frequency of the given n-grams, 0 to 1: [n] → [n]."""
        if not len(self.codes):
            return np.zeros(len(codes))
        positions = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[positions] == codes, self.counts[positions] / self.total, 0.0)

    def top(self, count: int) -> np.ndarray:
        """Codes of the most frequent n-grams; ties put n-grams of more frequent words first."""
        return self.codes[np.lexsort((self.codes, -self.counts))[:count]]


class NgramProfile(NamedTuple):
    """The n-gram counts of a set of texts."""

    label: str
    orders: dict[int, NgramCounts]  # for each n of ORDERS


def code_base(vocabulary_size: int) -> int:
    """The base of the codes of n-grams. Words with ids beyond it, the rarest of millions, count as <unknown>."""
    return min(vocabulary_size, MAX_BASE)


def count_ngrams(sentences: Iterable[Sequence[int] | np.ndarray], n: int, vocabulary_size: int) -> NgramCounts:
    """Count the n-grams of sentences of word ids. Memory grows with the number of distinct n-grams only."""
    base, remaining = code_base(vocabulary_size), iter(sentences)
    counted = NgramCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))
    while block := list(itertools.islice(remaining, BLOCK_SIZE)):
        ids = np.concatenate([np.asarray(sentence, np.int64) for sentence in block])
        ids = np.where(ids < base, ids, UNKNOWN)
        sentence_of = np.repeat(np.arange(len(block)), [len(sentence) for sentence in block])
        starts = max(0, len(ids) - n + 1)
        codes = np.zeros(starts, np.int64)
        for offset in range(n):
            codes = codes * base + ids[offset : starts + offset]
        codes, counts = np.unique(codes[sentence_of[:starts] == sentence_of[n - 1 :]], return_counts=True)
        union, positions = np.unique(np.concatenate([counted.codes, codes]), return_inverse=True)
        sums = np.zeros(len(union), np.int64)
        np.add.at(sums, positions.ravel(), np.concatenate([counted.counts, counts]))
        counted = NgramCounts(union, sums)
    return counted


def jensen_shannon(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> float | None:
    """Jensen–Shannon divergence of two count vectors in bits: 0 (equal) to 1 (disjoint). Source: Lin 1991.

    Returns:
        The divergence, or None if either vector sums to zero.
    """
    if not np.sum(first) or not np.sum(second):
        return None
    return float(jensenshannon(first, second, base=2)) ** 2


def divergence(first: NgramCounts, second: NgramCounts) -> float | None:
    """Jensen–Shannon divergence in bits: 0 for equal distributions, 1 if no n-gram is shared, None without n-grams."""
    codes = np.union1d(first.codes, second.codes)
    return jensen_shannon(first.shares(codes), second.shares(codes))


def divergences(profile: NgramProfile, reference: NgramProfile) -> dict[int, float | None]:
    """The divergence of two profiles for each n."""
    return {n: divergence(profile.orders[n], reference.orders[n]) for n in ORDERS}


def corpus_profile(run: Run) -> NgramProfile:
    """The profile of the training targets. Raises UserError if the corpus is unavailable."""
    data, codecs = run.config.data, run.codecs
    corpus, vocabulary = Dataset.open(data.train, codecs, data), codecs.target.vocabulary
    targets = corpus.targets(evenly_spaced(len(corpus), MAX_UTTERANCES))
    counts = {n: count_ngrams(targets, n, len(vocabulary)) for n in ORDERS}
    return NgramProfile("training corpus", counts)


def text_profile(label: str, texts: Iterable[Sequence[str]], vocabulary: Vocabulary) -> NgramProfile:
    """The profile of texts, as tokens; words outside the vocabulary count as <unknown>."""
    ids = [np.asarray(vocabulary.ids(tokens), np.int32) for tokens in texts]
    return NgramProfile(label, {n: count_ngrams(ids, n, len(vocabulary)) for n in ORDERS})


def ngram_text(code: int, n: int, vocabulary: Vocabulary) -> str:
    ids: list[int] = []
    for _ in range(n):
        code, word = divmod(int(code), code_base(len(vocabulary)))
        ids.insert(0, word)
    return " ".join(vocabulary.tokens(ids))


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
        return self.replies.total()

    def most_frequent(self, count: int = TOP_REPLIES) -> list[tuple[str, float]]:
        """The most frequent replies and their shares, 0 to 1; ties in alphabetical order."""
        ranked = sorted(self.replies.items(), key=lambda item: (-item[1], item[0]))[:count]
        return [(reply, number / self.samples) for reply, number in ranked]

    def metrics(self) -> dict[str, float | None]:
        """What ``evaluate`` reports; None without words, bigrams or replies.

        Returns:
            Shares, 0 to 1: distinct words among all words (``distinct_1``), bigrams (``distinct_2``) and replies
            (``distinct_replies``), and the share of the most frequent replies (``most_frequent_share``). The number of
            distinct words (``words_used``), the entropy of their distribution in bits (``word_entropy_bits``), and the
            mean number of words in a reply without the end marker (``mean_length``).
        """
        words, counts = self.unigrams.total(), np.array(list(self.unigrams.values()))
        return {
            "distinct_1": _ratio(len(self.unigrams), words),
            "distinct_2": _ratio(len(self.bigrams), self.bigrams.total()),
            "distinct_replies": _ratio(len(self.replies), self.samples),
            "words_used": len(self.unigrams),
            "word_entropy_bits": float(entr(counts / words).sum()) / math.log(2) if words else None,
            "most_frequent_share": math.fsum(share for _, share in self.most_frequent()) if self.samples else None,
            "mean_length": _ratio(words, self.samples),
        }


def _ratio(part: float, total: float) -> float | None:
    return part / total if total else None
