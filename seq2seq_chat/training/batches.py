"""Batches of a corpus: for training by step number, for measuring from first to last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

import numpy as np

from seq2seq_chat.config import Config
from seq2seq_chat.corpus.buckets import Bucket, choose_buckets, complete_buckets, route
from seq2seq_chat.corpus.encoded import Batch, EncodedCorpus
from seq2seq_chat.training.order import SampleOrder


def configured_buckets(config: Config, corpus: EncodedCorpus) -> list[Bucket]:
    """The buckets a configuration asks for; a corpus tells which are good where it asks for "auto"."""
    limits = (config.model.encoder_steps, config.model.decoder_steps)
    if config.data.buckets is None:
        return [limits]
    if config.data.buckets == "auto":
        return choose_buckets(corpus.source_lengths(), corpus.target_lengths() + 1, limits, config.data.most_buckets)
    return complete_buckets(config.data.buckets, limits)


class Batches:
    """A corpus cut into batches of constant shapes, one shape for each bucket.

    Args:
        corpus: where samples come from.
        buckets: step limits, the model's own last.
        size: rows of a batch; where there are fewer samples the rest of the rows are empty.
        reverse: whether the encoder reads last word first.
        chosen: use these samples only.
    """

    def __init__(
        self,
        corpus: EncodedCorpus,
        buckets: Sequence[Bucket],
        *,
        size: int,
        reverse: bool,
        chosen: Optional[np.ndarray] = None,
    ) -> None:
        self._corpus, self._buckets, self._size, self._reverse = corpus, buckets, size, reverse
        # a single bucket holds the whole corpus, and a list of all samples would be long
        self._members: list[Optional[np.ndarray]] = [chosen]
        self.sizes = [len(corpus) if chosen is None else len(chosen)]
        if len(buckets) > 1:
            lengths = corpus.source_lengths(), corpus.target_lengths() + 1
            if chosen is not None:
                lengths = lengths[0][chosen], lengths[1][chosen]
            members = route(*lengths, buckets)
            self.sizes = [len(samples) for samples in members]
            self._members = [samples if chosen is None else chosen[samples] for samples in members]

    def ordered(self, seed: int, begun: int = 0) -> SampleOrder:
        """The order of an experiment, begun at a step; its batches are arguments of :meth:`batch`."""
        return SampleOrder(self.sizes, self._size, seed, begun)

    def batch(self, bucket: int, places: np.ndarray) -> Batch:
        """The samples at some places of a bucket."""
        members = self._members[bucket]
        return self._corpus.batch(
            places if members is None else members[places],
            size=self._size,
            source_steps=self._buckets[bucket][0],
            target_steps=self._buckets[bucket][1],
            reverse=self._reverse,
        )

    def __iter__(self) -> Iterator[tuple[Batch, int]]:
        """All batches and the number of samples in each, bucket by bucket."""
        for bucket, size in enumerate(self.sizes):
            for first in range(0, size, self._size):
                places = np.arange(first, min(first + self._size, size))
                yield self.batch(bucket, places), len(places)
