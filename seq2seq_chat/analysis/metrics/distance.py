"""Sent2Vec distance: how far apart in meaning a reply and its reference are.

This is the thesis's metric: both texts are embedded, and the Euclidean distances are averaged. Lower is better. Compare
it only between evaluations that used the same embeddings. Cosine similarity (higher is better) ignores vector length.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from seq2seq_chat.analysis.metrics.sent2vec import Sent2Vec


class Sent2VecDistance:
    """Mean distance and cosine similarity, accumulated in blocks.

    Args:
        vectors: embeds the sentences.
        excluded: replies to skip.
    """

    def __init__(self, vectors: Sent2Vec, excluded: Collection[str] = ()) -> None:
        self._vectors, self._excluded = vectors, frozenset(excluded)
        self._distance_sum = self._cosine_sum = 0.0
        self.samples = 0

    def add(self, hypotheses: Sequence[str], references: Sequence[str]) -> None:
        """Add a block of hypotheses and their references, in the same order."""
        pairs = [pair for pair in zip(hypotheses, references, strict=True) if pair[0] not in self._excluded]
        if not pairs:
            return
        a, b = (self._vectors.embed(texts).astype(np.float64) for texts in zip(*pairs, strict=True))
        self._distance_sum += float(np.linalg.norm(a - b, axis=1).sum())
        self._cosine_sum += float(paired_cosine_similarity(a, b).sum())
        self.samples += len(pairs)

    @property
    def distance(self) -> float | None:
        """Mean Euclidean distance, or None without samples."""
        return self._distance_sum / self.samples if self.samples else None

    @property
    def cosine(self) -> float | None:
        """Mean cosine similarity, -1 to 1, or None without samples."""
        return self._cosine_sum / self.samples if self.samples else None


def paired_cosine_similarity(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine similarity of each pair of rows, 0 if either is the zero vector: [n, dim], [n, dim] → [n]."""
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    products = np.einsum("ij,ij->i", first, second)
    similarities: np.ndarray = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    return similarities
