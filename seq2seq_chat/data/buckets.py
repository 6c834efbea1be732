"""Buckets: batches of samples of about the same length, so that little is computed for padding.

A bucket is a pair of step limits (source, target). A sample goes into the cheapest bucket that holds all of it; the
last bucket has the model's own limits and takes the rest. The cost of a sample is taken as the steps it is computed
for, source and target together; a decoder step costs more than an encoder step, so it counts double.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from seq2seq_chat.errors import UserError

Bucket = tuple[int, int]
"""Step limits: (source, target)."""

Lengths = npt.NDArray[np.int32]
GRID = 30  # limits tried for source and target each; all of them for models of up to 30 steps
DECODER_STEP = 2.0  # encoder steps that a decoder step with attention and output costs, roughly


def cost(bucket: Bucket) -> float:
    """What a sample costs in a bucket, in encoder steps."""
    return bucket[0] + DECODER_STEP * bucket[1]


def complete_buckets(wanted: Sequence[Bucket], limits: Bucket) -> list[Bucket]:
    """The wanted buckets, cheapest first, ended by one of the model's own limits.

    Raises:
        UserError: a bucket is larger than the model.
    """
    for source, target in wanted:
        if source > limits[0] or target > limits[1]:
            raise UserError(
                f"data.buckets: [{source}, {target}] is larger than the model's steps, [{limits[0]}, {limits[1]}]; "
                "raise model.encoder_steps and model.decoder_steps or make the bucket smaller"
            )
    return sorted({(int(source), int(target)) for source, target in wanted} | {limits}, key=lambda b: (cost(b), b))


def choose_buckets(source: Lengths, target: Lengths, limits: Bucket, most: int) -> list[Bucket]:
    """At most ``most`` buckets that make a corpus cheap, cheapest first.

    Starting from the model's limits, the bucket that saves most is added again and again, then each is moved to where
    it saves most until nothing gets better. Tried are all pairs of limits, or of many limits ``GRID`` evenly spread.

    Args:
        source: words of each source; target: words of each target with its end marker. [samples]
        limits: the model's steps.
    """
    sources, targets = _grid(limits[0]), _grid(limits[1])
    counts = np.zeros([len(sources), len(targets)])
    np.add.at(counts, (_places(source, sources), _places(target, targets)), 1)
    candidates = [(int(s), int(t)) for s in sources for t in targets]
    prices = {bucket: _price_table(bucket, sources, targets) for bucket in candidates}

    def total(tables: list[npt.NDArray[Any]]) -> float:
        return float((np.minimum.reduce(tables) * counts).sum())

    chosen = [limits]
    for _ in range(most - 1):
        tables = [prices[bucket] for bucket in chosen]
        best = min(candidates, key=lambda bucket: total([*tables, prices[bucket]]))
        if total([*tables, prices[best]]) >= total(tables):
            break
        chosen.append(best)
    improved = True
    while improved:
        improved = False
        for place in range(1, len(chosen)):
            tables = [prices[bucket] for number, bucket in enumerate(chosen) if number != place]
            best = min(candidates, key=lambda bucket: total([*tables, prices[bucket]]))
            if total([*tables, prices[best]]) < total([*tables, prices[chosen[place]]]):
                chosen[place], improved = best, True
    return complete_buckets(chosen, limits)


def _grid(limit: int) -> npt.NDArray[np.int64]:
    """The step limits that are tried, ascending, the last one being the model's own."""
    return np.unique(np.ceil(np.linspace(1, limit, min(limit, GRID))).astype(np.int64))


def _places(lengths: Lengths, grid: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Which limit of the grid is the smallest that holds each length; the last one takes what is longer."""
    return np.minimum(np.searchsorted(grid, lengths), len(grid) - 1)


def route(source: Lengths, target: Lengths, buckets: Sequence[Bucket]) -> list[npt.NDArray[np.int64]]:
    """The samples of each bucket, ascending. The buckets are ordered, and the last one takes what fits nowhere."""
    place = np.full(len(source), len(buckets) - 1, np.int16)
    for number in reversed(range(len(buckets) - 1)):
        place[(source <= buckets[number][0]) & (target <= buckets[number][1])] = number
    return [np.flatnonzero(place == number) for number in range(len(buckets))]


def _price_table(bucket: Bucket, sources: npt.NDArray[np.int64], targets: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """What a sample of each pair of lengths costs in a bucket; infinite where it does not fit."""
    fits = (sources <= bucket[0])[:, np.newaxis] & (targets <= bucket[1])
    return np.where(fits, cost(bucket), np.inf)
