"""Distances: between the meanings of a reply and its reference, and between two distributions.

The Sent2Vec distance is the thesis's metric: both texts are embedded, and the Euclidean distances are averaged. Lower
is better. Compare it only between evaluations that used the same embeddings. Cosine similarity (higher is better)
ignores vector length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import rel_entr

from seq2seq_chat.metrics.sent2vec import Sent2Vec


class SentenceDistances(NamedTuple):
    """Distance and cosine similarity of each reply and its reference, [samples] each."""

    euclidean: npt.NDArray[np.float64]
    cosine: npt.NDArray[np.float64]

    @classmethod
    def of_blocks(cls, vectors: Sent2Vec, blocks: Iterable[tuple[Sequence[str], Sequence[str]]]) -> SentenceDistances:
        """Embed blocks of hypotheses and their references, in the same order."""
        distances, similarities = [np.zeros(0)], [np.zeros(0)]
        for block in blocks:
            a, b = (vectors.embed(texts).astype(np.float64) for texts in block)
            distances.append(np.linalg.norm(a - b, axis=1))
            similarities.append(paired_cosine_similarity(a, b))
        return cls(np.concatenate(distances), np.concatenate(similarities))

    def select(self, selected: npt.NDArray[np.bool_]) -> SentenceDistances:
        """Those of some of the samples."""
        return SentenceDistances(self.euclidean[selected], self.cosine[selected])

    def means(self) -> tuple[float | None, float | None]:
        """Mean Euclidean distance and mean cosine similarity, -1 to 1; None without samples."""
        if not len(self.euclidean):
            return None, None
        return float(self.euclidean.mean()), float(self.cosine.mean())


def paired_cosine_similarity(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine similarity of each pair of rows, 0 if either is the zero vector: [n, dim], [n, dim] → [n]."""
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    products = np.einsum("ij,ij->i", first, second)
    similarities: np.ndarray = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    return similarities


def jensen_shannon(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> float | None:
    """Jensen–Shannon divergence of two count vectors in bits: 0 (equal) to 1 (disjoint). Source: Lin 1991.

    Returns:
        The divergence, or None if either vector sums to zero.
    """
    p, q = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if not p.sum() or not q.sum():
        return None
    p, q = p / p.sum(), q / q.sum()
    mixture = (p + q) / 2
    return float(rel_entr(p, mixture).sum() + rel_entr(q, mixture).sum()) / (2 * math.log(2))
