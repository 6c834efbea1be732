"""Batches of samples, and the step limits of their buckets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Data
from seq2seq_chat.data.dataset import Batch, Dataset
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.vocabulary import PAD, TURN, UNKNOWN, Vocabulary

Bucket = tuple[int, int]
"""Step limits: (source, target)."""

Lengths = npt.NDArray[np.int32]
MAX_CANDIDATES = 30  # limits tried for source and target each; all limits for models of up to 30 steps
DECODER_STEP_COST = 2.0  # of a step with attention and output, in encoder steps, roughly


def cost(bucket: Bucket) -> float:
    """The cost of a sample in a bucket, in encoder steps."""
    return bucket[0] + DECODER_STEP_COST * bucket[1]


def complete_buckets(buckets: Sequence[Bucket], limits: Bucket) -> list[Bucket]:
    """The distinct buckets, cheapest first, with a last one of the model's limits.

    Raises:
        UserError: A bucket exceeds the model's limits.
    """
    for source, target in buckets:
        if source > limits[0] or target > limits[1]:
            raise UserError(
                f"data.buckets: [{source}, {target}] is larger than the model's steps, [{limits[0]}, {limits[1]}]; "
                "raise model.encoder_steps and model.decoder_steps or make the bucket smaller"
            )
    return sorted({(int(source), int(target)) for source, target in buckets} | {limits}, key=lambda b: (cost(b), b))


def choose_buckets(source: Lengths, target: Lengths, limits: Bucket, max_buckets: int) -> list[Bucket]:
    """At most ``max_buckets`` buckets that minimize the cost of a corpus, cheapest first.

    Starting from the model's limits, a greedy search adds the bucket that saves the most; then a local search changes
    one bucket at a time until nothing improves.

    Args:
        source: [samples] Words of each source.
        target: [samples] Words of each target, with EOS.
        limits: The model's steps.
        max_buckets: Includes the one with the model's steps.
    """
    sources, targets = _candidate_limits(limits[0]), _candidate_limits(limits[1])
    counts = np.zeros([len(sources), len(targets)])
    np.add.at(counts, (_smallest_limit(source, sources), _smallest_limit(target, targets)), 1)
    candidates = [(int(s), int(t)) for s in sources for t in targets]
    costs = {bucket: _cost_table(bucket, sources, targets) for bucket in candidates}

    def total(tables: list[npt.NDArray[Any]]) -> float:
        return float((np.minimum.reduce(tables) * counts).sum())

    buckets = [limits]
    for _ in range(max_buckets - 1):
        tables = [costs[bucket] for bucket in buckets]
        best = min(candidates, key=lambda bucket: total([*tables, costs[bucket]]))
        if total([*tables, costs[best]]) >= total(tables):
            break
        buckets.append(best)
    improved = True
    while improved:
        improved = False
        for index in range(1, len(buckets)):
            tables = [costs[bucket] for other, bucket in enumerate(buckets) if other != index]
            best = min(candidates, key=lambda bucket: total([*tables, costs[bucket]]))
            if total([*tables, costs[best]]) < total([*tables, costs[buckets[index]]]):
                buckets[index], improved = best, True
    return complete_buckets(buckets, limits)


def route(source: Lengths, target: Lengths, buckets: Sequence[Bucket]) -> list[npt.NDArray[np.int64]]:
    """The samples of each bucket, ascending: each sample is in the first bucket it fits into, or else the last."""
    bucket_of = np.full(len(source), len(buckets) - 1, np.int16)
    for number in reversed(range(len(buckets) - 1)):
        bucket_of[(source <= buckets[number][0]) & (target <= buckets[number][1])] = number
    return [np.flatnonzero(bucket_of == number) for number in range(len(buckets))]


def _candidate_limits(limit: int) -> npt.NDArray[np.int64]:
    """Step limits to try, evenly spaced and ascending; the last is the model's."""
    return np.unique(np.ceil(np.linspace(1, limit, min(limit, MAX_CANDIDATES))).astype(np.int64))


def _smallest_limit(lengths: Lengths, limits: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The index of the smallest limit that is not below each length; the last index for longer ones."""
    return np.minimum(np.searchsorted(limits, lengths), len(limits) - 1)


def _cost_table(bucket: Bucket, sources: npt.NDArray[np.int64], targets: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The cost of a sample of each pair of lengths in a bucket; infinite if it does not fit."""
    fits = (sources <= bucket[0])[:, np.newaxis] & (targets <= bucket[1])
    return np.where(fits, cost(bucket), np.inf)


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


PUNCTUATION = (".", ",", "!", "?")


class SourceNoise:
    """Replaces words by ``<unknown>`` and removes punctuation marks at random.

    The noise of a batch is a function of (seed, step), so that a resumed training gets the same.

    Args:
        rate: Probability of replacing a word, and of removing a punctuation mark, 0 to 1.
        vocabulary: Knows which ids are punctuation marks.
        seed: Seed of the experiment.
    """

    def __init__(self, rate: float, vocabulary: Vocabulary, seed: int) -> None:
        self._rate = rate
        self._punctuation = [index for index in vocabulary.ids(PUNCTUATION) if index != UNKNOWN]
        self._turn = vocabulary.ids([TURN])  # [UNKNOWN] without context turns
        self._key = int.from_bytes(hashlib.sha256(f"{seed} source noise".encode()).digest()[:8], "big")

    def __call__(self, batch: Batch, step: int) -> Batch:
        """Add noise to a batch. A source that would become empty stays as it is."""
        rng = np.random.Generator(np.random.Philox(key=[self._key, step]))
        hit = (rng.random(batch.source.shape) < self._rate) & (batch.source != PAD)
        removed = hit & np.isin(batch.source, self._punctuation)
        removed &= (removed.sum(axis=1) < batch.source_length)[:, np.newaxis]
        replaced = hit & ~np.isin(batch.source, [*self._punctuation, *self._turn])
        source = np.where(replaced, UNKNOWN, np.where(removed, PAD, batch.source))
        order = np.argsort(removed, axis=1, kind="stable")  # words keep their order, padding moves to the end
        kept = batch.source_length - removed.sum(axis=1, dtype=np.int32)
        return batch._replace(source=np.take_along_axis(source, order, axis=1), source_length=kept)
