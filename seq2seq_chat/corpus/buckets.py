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
    it saves most until nothing gets better. All pairs of limits are tried.

    Args:
        source: words of each source; target: words of each target with its end marker. [samples]
        limits: the model's steps.
    """
    counts = np.zeros([limits[0] + 1, limits[1] + 1])
    np.add.at(counts, (np.minimum(source, limits[0]), np.minimum(target, limits[1])), 1)
    candidates = [(s, t) for s in range(1, limits[0] + 1) for t in range(1, limits[1] + 1)]
    prices = {bucket: _price_table(bucket, limits) for bucket in candidates}

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


def route(source: Lengths, target: Lengths, buckets: Sequence[Bucket]) -> list[npt.NDArray[np.int64]]:
    """The samples of each bucket, ascending. The buckets are ordered, and the last one takes what fits nowhere."""
    place = np.full(len(source), len(buckets) - 1, np.int16)
    for number in reversed(range(len(buckets) - 1)):
        place[(source <= buckets[number][0]) & (target <= buckets[number][1])] = number
    return [np.flatnonzero(place == number) for number in range(len(buckets))]


def _price_table(bucket: Bucket, limits: Bucket) -> npt.NDArray[Any]:
    """What a sample of each pair of lengths costs in a bucket; infinite where it does not fit."""
    table = np.full([limits[0] + 1, limits[1] + 1], np.inf)
    table[: bucket[0] + 1, : bucket[1] + 1] = cost(bucket)
    return table
