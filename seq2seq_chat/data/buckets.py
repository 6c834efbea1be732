"""Buckets: batches of samples of similar length, to save computation on padding.

A bucket is a pair of step limits (source, target). A sample belongs to the cheapest bucket it fits into without being
cut; samples that fit nowhere belong to the last bucket, which has the model's limits. The cost of a bucket is its
number of steps; decoder steps count double.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from seq2seq_chat.system.errors import UserError

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
