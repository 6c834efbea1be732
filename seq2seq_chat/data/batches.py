"""Batches of a dataset, one at a time for training or all in order for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from seq2seq_chat.config import Data
from seq2seq_chat.data.buckets import Bucket, choose_buckets, complete_buckets, route
from seq2seq_chat.data.dataset import Batch, Dataset


def configured_buckets(settings: Data, limits: Bucket, dataset: Dataset) -> list[Bucket]:
    """The buckets of ``data.buckets``, cheapest first; "auto" chooses them by the lengths in the dataset."""
    if settings.buckets is None:
        return [limits]
    if settings.buckets == "auto":
        return choose_buckets(dataset.source_lengths(), dataset.target_lengths() + 1, limits, settings.max_buckets)
    return complete_buckets(settings.buckets, limits)


class Batches:
    """A dataset divided into batches of constant shape, one shape for each bucket.

    Args:
        dataset: The samples.
        buckets: Step limits, cheapest first; the last bucket has the model's steps.
        size: Rows of a batch; the last batch of a bucket is padded with empty rows.
        reverse: Whether the encoder reads the last word first.
        indices: Use only these samples.

    Attributes:
        buckets: The step limits.
        sizes: Number of samples in each bucket.
    """

    def __init__(
        self,
        dataset: Dataset,
        buckets: Sequence[Bucket],
        *,
        size: int,
        reverse: bool,
        indices: np.ndarray | None = None,
    ) -> None:
        self._dataset, self.buckets, self._size, self._reverse = dataset, buckets, size, reverse
        self._indices = indices
        # None: all samples; the indices of a large dataset would take a lot of memory
        self._members: list[np.ndarray | None] = [None]
        self.sizes = [len(dataset) if indices is None else len(indices)]
        if len(buckets) > 1:
            members = route(dataset.source_lengths(indices), dataset.target_lengths(indices) + 1, buckets)
            self.sizes = [len(samples) for samples in members]
            self._members = list(members)

    def batch(self, bucket: int, positions: np.ndarray) -> Batch:
        """The samples at some positions within a bucket."""
        samples = self._samples(bucket, positions)
        return self._dataset.batch(
            samples if self._indices is None else self._indices[samples],
            size=self._size,
            source_steps=self.buckets[bucket][0],
            target_steps=self.buckets[bucket][1],
            reverse=self._reverse,
        )

    def __iter__(self) -> Iterator[tuple[Batch, np.ndarray]]:
        """All batches, bucket by bucket, each with the positions of its samples in ``indices``, or in the dataset."""
        for bucket, size in enumerate(self.sizes):
            for first in range(0, size, self._size):
                positions = np.arange(first, min(first + self._size, size))
                yield self.batch(bucket, positions), self._samples(bucket, positions)

    def _samples(self, bucket: int, positions: np.ndarray) -> np.ndarray:
        members = self._members[bucket]
        return positions if members is None else members[positions]


def evenly_spaced(total: int, count: int | None) -> np.ndarray:
    """``count`` indices evenly spaced over ``range(total)``, or all of them: int64, ascending."""
    if count is None or count >= total:
        return np.arange(total, dtype=np.int64)
    return np.arange(count, dtype=np.int64) * total // count
