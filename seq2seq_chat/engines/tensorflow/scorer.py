"""Exact log-probabilities of given targets: full softmax, teacher forcing, no dropout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from seq2seq_chat.data.batches import Batches, Bucket
from seq2seq_chat.data.dataset import Batch, Dataset
from seq2seq_chat.engines import MAX_LOGITS
from seq2seq_chat.model.execution import call_with_arrays, split_batch
from seq2seq_chat.model.matrix_copies import using_padded_copies
from seq2seq_chat.model.seq2seq import Loss, Seq2Seq
from seq2seq_chat.search.engine import SampleScores

MAX_ROWS = 64  # samples that are computed together


class Scores(NamedTuple):
    """How well a model predicts the targets of a batch."""

    loss: Loss  # summed over the batch
    nats: tf.Tensor  # -log P(target | source): [batch]
    correct: tf.Tensor  # target tokens that are the most probable ones, float: [batch], or [0] if not counted


class Scorer:
    """Scores targets given their sources, compiled once for each shape.

    Args:
        model: its variables may change between calls.
        count_correct: whether to count the tokens that the model predicts correctly.
    """

    def __init__(
        self, model: Seq2Seq, micro_batches: int = 1, max_rows: int = MAX_ROWS, count_correct: bool = False
    ) -> None:
        self._model, self._count_correct = model, count_correct
        self.rows = max(1, min(max_rows, int(MAX_LOGITS / model.vocabulary_size / model.config.decoder_steps)))
        self._micro_batches = min(micro_batches, self.rows)
        self._graph = tf.function(self._score, autograph=False)

    def score_batches(
        self, dataset: Dataset, buckets: Sequence[Bucket], reverse: bool, indices: np.ndarray | None = None
    ) -> Iterator[tuple[np.ndarray, Batch, Scores]]:
        """Score samples of a dataset: (positions of the samples in ``indices``, batch, scores) for each batch.

        Args:
            buckets: step limits, the model's own last.
            reverse: whether the encoder reads the last word first.
            indices: numbers of the samples to score, [n]; None for all.
        """
        batches = Batches(dataset, buckets, size=self.rows, reverse=reverse, indices=indices)
        for batch, positions in batches:
            yield positions, batch, call_with_arrays(self._graph, *batch)

    def score_samples(
        self, dataset: Dataset, buckets: Sequence[Bucket], reverse: bool, indices: np.ndarray
    ) -> SampleScores:
        """The scores of each sample; arguments as for :meth:`score_batches`."""
        result = np.zeros((3, len(indices)))
        for positions, batch, scores in self.score_batches(dataset, buckets, reverse, indices):
            rows = slice(len(positions))
            result[:, positions] = scores.nats.numpy()[rows], batch.target_length[rows], scores.correct.numpy()[rows]
        return SampleScores(*result)

    def log_probabilities(self, *pairs: np.ndarray) -> np.ndarray:
        """log P(target | source) of pairs in nats, for checks: [n].

        Args:
            pairs: int32 sources, [n, source steps], and lengths, [n]; targets and lengths.
        """
        nats: np.ndarray = self._score_micro_batch(*map(tf.constant, pairs)).nats.numpy()
        return -nats

    def _score(self, *batch: tf.Tensor) -> Scores:
        micro_batches = split_batch(batch, self._micro_batches)
        with using_padded_copies(weight.matrix for weight in self._model.weights_of_steps):
            scores = [self._score_micro_batch(*tensors) for _, tensors in micro_batches]
        if len(scores) == 1:
            return scores[0]
        losses, nats, correct = zip(*scores, strict=True)
        return Scores(Loss(*map(tf.add_n, zip(*losses, strict=True))), tf.concat(nats, 0), tf.concat(correct, 0))

    def _score_micro_batch(
        self, source: tf.Tensor, source_lengths: tf.Tensor, target: tf.Tensor, target_lengths: tf.Tensor
    ) -> Scores:
        hidden, words, positions = self._model.teacher_forced(source, source_lengths, target, target_lengths)
        logits = self._model.output.logits(hidden)
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(words, logits)

        def by_row(values: tf.Tensor) -> tf.Tensor:
            return tf.math.unsorted_segment_sum(values, positions[:, 1], tf.shape(target)[0])

        correct = tf.zeros([0])
        if self._count_correct:
            most_probable = tf.argmax(logits, axis=1, output_type=words.dtype)
            correct = by_row(tf.cast(tf.equal(most_probable, words), tf.float32))
        return Scores(Loss.of_tokens(nats), by_row(nats), correct)
