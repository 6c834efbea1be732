"""How far the meaning of replies is from that of the expected ones.

The thesis's measure: both are embedded, and the Euclidean distances are averaged. Smaller is better, and it compares
only between evaluations that used the same embeddings. The cosine similarity (larger is better) does not depend on the
length of the vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from seq2seq_chat.analysis.sent2vec import Sent2Vec


class MeaningDistance:
    """Mean distance and similarity, block by block.

    Args:
        vectors: what embeds sentences.
        left_out: replies that do not count, however good they are.
    """

    def __init__(self, vectors: Sent2Vec, left_out: Collection[str] = ()) -> None:
        self._vectors, self._left_out = vectors, frozenset(left_out)
        self._distance = self._cosine = 0.0
        self.samples = 0

    def add(self, replies: Sequence[str], expected: Sequence[str]) -> None:
        """Count some replies and the expected ones, in the same order."""
        kept = [(r, e) for r, e in zip(replies, expected, strict=True) if r not in self._left_out]
        if not kept:
            return
        a, b = (self._vectors.embed(texts).astype(np.float64) for texts in zip(*kept, strict=True))
        self._distance += float(np.linalg.norm(a - b, axis=1).sum())
        self._cosine += float(cosines(a, b).sum())
        self.samples += len(kept)

    @property
    def distance(self) -> float | None:
        """Mean Euclidean distance; None where nothing was counted."""
        return self._distance / self.samples if self.samples else None

    @property
    def cosine(self) -> float | None:
        """Mean cosine similarity, -1 to 1; None where nothing was counted."""
        return self._cosine / self.samples if self.samples else None


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine similarity of each pair of rows, 0 where one is the zero vector: [n, dim], [n, dim] → [n]."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    products = np.einsum("ij,ij->i", first, second)
    similarities: np.ndarray = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return similarities
