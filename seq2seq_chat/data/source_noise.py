"""Noise in the sources of training batches, which makes a model robust to unknown words and missing punctuation."""

from __future__ import annotations

import hashlib

import numpy as np

from seq2seq_chat.data.dataset import Batch
from seq2seq_chat.data.vocabulary import PAD, TURN, UNKNOWN, Vocabulary

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
