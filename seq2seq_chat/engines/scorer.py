"""Log-probabilities of given targets, word by word, over the steps of any engine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from seq2seq_chat.data.batches import Batches, Bucket
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.search.engine import Edits, Engine, SampleScores, StepRequest
from seq2seq_chat.text.vocabulary import GO

MAX_ROWS = 128  # scored together


class StepScorer:
    """Scores targets given their sources, with the steps of an engine; see :class:`SampleScorer`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def log_probabilities(
        self, source: np.ndarray, source_lengths: np.ndarray, target: np.ndarray, target_lengths: np.ndarray
    ) -> npt.NDArray[np.float32]:
        """The log-probability of each word, given those before it, in nats: [n, target steps]; 0 after the target.

        Args:
            source, target: ids, int32 [n, source steps] and [n, target steps].
            source_lengths, target_lengths: int32 [n].
        """
        pairs = [part.astype(np.int32) for part in (source, source_lengths, target, target_lengths)]
        parts = [
            self._score(*(part[first : first + MAX_ROWS] for part in pairs))[0]
            for first in range(0, len(source), MAX_ROWS)
        ]
        return np.concatenate([np.zeros([0, target.shape[1]], np.float32), *parts])

    def score_samples(
        self, dataset: Dataset, buckets: Sequence[Bucket], reverse: bool, indices: np.ndarray
    ) -> SampleScores:
        """The scores of samples of a dataset; arguments as for :meth:`Scorer.score_batches`."""
        result = np.zeros((3, len(indices)))
        for batch, positions in Batches(dataset, buckets, size=MAX_ROWS, reverse=reverse, indices=indices):
            rows = slice(len(positions))
            words, correct = self._score(*(part[rows] for part in batch))
            result[:, positions] = -words.sum(axis=1), batch.target_length[rows], correct
        return SampleScores(*result)

    def _score(
        self, source: np.ndarray, source_lengths: np.ndarray, target: np.ndarray, target_lengths: np.ndarray
    ) -> tuple[npt.NDArray[np.float32], np.ndarray]:
        """Log-probabilities of words, [rows, target steps], and how many are the most probable ones: [rows]."""
        state = self._engine.start(source, source_lengths)
        words, correct = np.zeros(target.shape, np.float32), np.zeros(len(source))
        rows = parents = np.arange(len(source), dtype=np.int32)
        previous = np.full(len(source), GO, np.int32)
        for t in range(int(np.max(target_lengths, initial=0))):
            kept = target_lengths[rows] > t
            rows, parents, previous = rows[kept], parents[kept], previous[kept]
            output, state = self._engine.step(state, StepRequest(previous, parents, Edits(), forced=target[rows, t]))
            previous, parents = target[rows, t], np.arange(len(rows), dtype=np.int32)
            words[rows, t] = output.forced
            correct[rows] += output.words[:, 0] == previous
        return words, correct
