"""From the decoder's output to words: projection, full softmax, sampled softmax."""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.model.attention import MASKED
from seq2seq_chat.model.deferred import product_with_rows
from seq2seq_chat.model.weights import Weight, glorot

MOST_FEW = 128  # rows up to which a table is better multiplied from the left


class Output(tf.Module):
    """p = W_p h̃ ∈ R^P, logits = W_s p + b ∈ R^V; without a projection p = h̃."""

    def __init__(self, config: Model, vocabulary_size: int, seed: int) -> None:
        super().__init__()
        width = config.projection_size or config.hidden_size
        self.vocabulary_size = vocabulary_size
        self.projection = (
            Weight("output/projection", config.hidden_size, width, seed) if config.projection_size else None
        )
        # a row for each word, so that sampled softmax and its sparse update touch only the rows they need
        self.words = tf.Variable(glorot([vocabulary_size, width], seed, "output/words"), name="output/words")
        self.bias = tf.Variable(tf.zeros(vocabulary_size), name="output/bias")

    def project(self, hidden: tf.Tensor) -> tf.Tensor:
        """hidden: [..., hidden] → [..., projection]."""
        return hidden if self.projection is None else self.projection(hidden)

    def logits(self, projected: tf.Tensor) -> tf.Tensor:
        """projected: [tokens, projection] → [tokens, vocabulary]."""
        return tf.nn.bias_add(product_with_rows(projected, self.words), self.bias)

    def logits_of_few(self, projected: tf.Tensor) -> tf.Tensor:
        """The same for decoding, where a few rows make CPU kernels rearrange the large table for little arithmetic.

        (W p)ᵀ is p Wᵀ, and leaves the table as it is. One row alone is no matter of arrangement.
        """
        rows = tf.shape(projected)[0]
        few = (rows > 1) & (rows <= MOST_FEW)
        return tf.cond(  # the bias is added inside, where it becomes a part of the product
            few,
            lambda: tf.nn.bias_add(tf.transpose(tf.matmul(self.words, projected, transpose_b=True)), self.bias),
            lambda: tf.nn.bias_add(tf.matmul(projected, self.words, transpose_b=True), self.bias),
        )

    def full_loss(self, hidden: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Cross-entropy over the whole vocabulary. hidden: [tokens, hidden], targets: [tokens] → nats: [tokens]."""
        return tf.nn.sparse_softmax_cross_entropy_with_logits(targets, self.logits(self.project(hidden)))

    def sampled_loss(self, hidden: tf.Tensor, targets: tf.Tensor, sample: SampledWords) -> tf.Tensor:
        """An estimate of :meth:`full_loss` from some words (Jean et al. 2015). Same shapes; for training only.

        Cross-entropy over the right word and the sampled ones, each logit less the logarithm of how often its word was
        expected. A sampled word that is the right one is left out, every time it was drawn: TensorFlow's own
        ``sampled_softmax_loss`` leaves out one of two.
        """
        projected, words = self.project(hidden), tf.cast(sample.words, targets.dtype)
        vectors = tf.gather(self.words, tf.concat([targets, words], axis=0))
        offsets = tf.gather(self.bias, tf.concat([targets, words], axis=0)) - tf.math.log(
            tf.concat([tf.gather(sample.expected_counts, targets), sample.expected], axis=0)
        )
        sizes = [tf.shape(targets)[0], words.shape[0]]
        (right, others), (right_offset, other_offsets) = tf.split(vectors, sizes), tf.split(offsets, sizes)
        right_logits = tf.reduce_sum(projected * right, axis=1) + right_offset
        other_logits = product_with_rows(projected, others) + other_offsets
        other_logits = tf.where(targets[:, tf.newaxis] == words, MASKED, other_logits)
        logits = tf.concat([right_logits[:, tf.newaxis], other_logits], axis=1)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.zeros_like(targets), logits)


class SampledWords(NamedTuple):
    """The words drawn for one training step."""

    words: tf.Tensor  # int64 [sampled]
    expected: tf.Tensor  # how often each of them was expected to be drawn: [sampled]
    expected_counts: tf.Tensor  # the same for every word of the vocabulary: [vocabulary]


class WordSampler:
    """Draws words for the sampled softmax as a function of (seed, step).

    Frequent words must be drawn often, and words are numbered by frequency, so a word's weight falls with its rank like
    log((rank + 2) / (rank + 1)), as Zipf's law suggests and TensorFlow's log-uniform sampler does. Where that sampler
    keeps hidden state and estimates how often a word is drawn, this one draws without state and knows it exactly:

    every word gets an expected count, proportional to its weight but at most one; laid end to end the counts cover the
    line from 0 to ``sampled``, and one point is drawn in each unit of it (stratified sampling, Cochran 1977, ch. 5).

    Args:
        vocabulary_size: words to draw from.
        sampled: words to draw, fewer than there are.
    """

    def __init__(self, vocabulary_size: int, sampled: int, seed: int) -> None:
        if not 0 < sampled < vocabulary_size:
            raise ValueError(f"cannot sample {sampled} of {vocabulary_size} words")
        rank = np.arange(vocabulary_size, dtype=np.float64)
        counts = _capped_shares(np.log1p(1.0 / (rank + 1.0)), sampled)
        self._upper = np.cumsum(counts)
        self._upper[-1] = sampled  # rounding must not leave a gap at the end
        self._counts = counts
        self._sampled, self._seed = sampled, seed

    def __call__(self, step: tf.Tensor) -> SampledWords:
        """The words of a training step; step: scalar integer."""
        seed = tf.stack([tf.constant(self._seed, tf.int64), tf.cast(step, tf.int64)])
        points = tf.random.stateless_uniform([self._sampled], seed, dtype=tf.float64)
        points += tf.range(self._sampled, dtype=tf.float64)
        words = tf.searchsorted(tf.constant(self._upper), points, side="right", out_type=tf.int64)
        words = tf.minimum(words, len(self._upper) - 1)
        counts = tf.constant(self._counts, tf.float32)
        return SampledWords(words, tf.gather(counts, words), counts)


def _capped_shares(weights: np.ndarray, total: float) -> np.ndarray:
    """Shares of ``total`` proportional to the weights, none above one: [n] → [n]. Weights must not increase."""
    capped = 0
    while True:
        scale = (total - capped) / weights[capped:].sum()
        above = int(np.count_nonzero(weights[capped:] * scale > 1.0))
        if not above:
            return np.concatenate([np.ones(capped), weights[capped:] * scale])
        capped += above


def softmax_sampler(vocabulary_size: int, sampled: Optional[int], seed: int) -> Optional[WordSampler]:
    """The sampler of a training, or None where the full softmax is no more work than the sampled one."""
    if sampled is None or sampled >= vocabulary_size:
        return None
    return WordSampler(vocabulary_size, sampled, seed)


def untrained_loss(vocabulary_size: int) -> float:
    """The loss of a model that knows nothing, in nats per token: every word equally likely."""
    return math.log(vocabulary_size)
