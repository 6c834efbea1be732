"""Exact log-probabilities of given targets by an exported model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seq2seq_chat.config import Model
from seq2seq_chat.data.batches import Batches, Bucket
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.vocabulary import GO
from seq2seq_chat.engines.onnx.model import ExportedModel, take_rows
from seq2seq_chat.search.hypotheses import SampleScores

MAX_ROWS = 128  # scored together


class ArrayScorer:
    """Scores targets given their sources, word by word; see :class:`seq2seq_chat.engines.tensorflow.scorer.Scorer`."""

    def __init__(self, model: ExportedModel, config: Model) -> None:
        self._model = model
        self.source_steps, self.target_steps = config.encoder_steps, config.decoder_steps

    def log_probabilities(
        self, source: np.ndarray, source_lengths: np.ndarray, target: np.ndarray, target_lengths: np.ndarray
    ) -> np.ndarray:
        """log P(target | source) of any number of pairs, in nats: [n]."""
        pairs = [part.astype(np.int32) for part in (source, source_lengths, target, target_lengths)]
        nats = [
            self._score(*(part[first : first + MAX_ROWS] for part in pairs))[0]
            for first in range(0, len(source), MAX_ROWS)
        ]
        return -np.concatenate(nats) if nats else np.zeros(0, np.float32)

    def score_samples(
        self, dataset: Dataset, buckets: Sequence[Bucket], reverse: bool, indices: np.ndarray
    ) -> SampleScores:
        """The scores of samples of a dataset; arguments as for :meth:`Scorer.score_batches`."""
        result = np.zeros((3, len(indices)))
        for batch, positions in Batches(dataset, buckets, size=MAX_ROWS, reverse=reverse, indices=indices):
            rows = slice(len(positions))
            nats, correct = self._score(*(part[rows] for part in batch))
            result[:, positions] = nats, batch.target_length[rows], correct
        return SampleScores(*result)

    def _score(
        self, source: np.ndarray, source_lengths: np.ndarray, target: np.ndarray, target_lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """-log P(target | source) and the number of words that are the most probable ones: [rows] each."""
        state, memory = self._model.encode(source, source_lengths)
        nats, correct = np.zeros([2, len(source)], np.float32)
        previous, rows = np.full(len(source), GO, np.int32), np.arange(len(source))
        for t in range(int(np.max(target_lengths, initial=0))):
            kept = np.flatnonzero(target_lengths[rows] > t)
            if len(kept) < len(rows):
                rows, previous = rows[kept], previous[kept]
                state, memory = take_rows(state, kept), take_rows(memory, kept)
            output = self._model.step(previous, state, memory)
            previous, state = target[rows, t], output.state
            nats[rows] += output.normalizer - output.logits[np.arange(len(rows)), previous]
            correct[rows] += output.logits.argmax(axis=1) == previous
        return nats, correct
