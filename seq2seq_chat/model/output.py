"""From the decoder's output to words: projection, full softmax and sampled softmax."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from seq2seq_chat.architecture.variables import MASK_VALUE, decoder_output_size
from seq2seq_chat.config import Model, Training
from seq2seq_chat.model.deferred import matmul_transposed
from seq2seq_chat.model.matrix_copies import copies_of, matmul_copies
from seq2seq_chat.model.variables import Weight, glorot, uniform
from seq2seq_chat.system.errors import UserError

MAX_TRANSPOSED_ROWS = 128  # up to this number, (W pᵀ)ᵀ is faster than p Wᵀ


class Output(tf.Module):
    """p = W_p h̃ ∈ R^P, logits = W_s p + b ∈ R^V; without a projection, or after a maxout layer of P units, p = h̃.

    With tied embeddings W_s is the embedding of the target words (Press & Wolf 2017).
    """

    def __init__(self, config: Model, vocabulary_size: int, seed: int, embedding: Embedding | None = None) -> None:
        super().__init__()
        hidden_size = decoder_output_size(config)
        width = config.projection_size or hidden_size
        projects = config.projection_size is not None and config.output != "maxout"
        self.vocabulary_size = vocabulary_size
        self.projection = Weight("output/projection", hidden_size, width, seed) if projects else None
        # one row per word, so that sampled softmax and its sparse update touch only the rows they need
        if config.tie_embeddings and embedding is not None:
            self.words = embedding.table
        else:
            self.words = tf.Variable(glorot([vocabulary_size, width], seed, "output/words"), name="output/words")
        self.bias = tf.Variable(tf.zeros(vocabulary_size), name="output/bias")

    def logits(self, hidden: tf.Tensor) -> tf.Tensor:
        """hidden: [tokens, hidden] → [tokens, vocabulary]."""
        return tf.nn.bias_add(matmul_transposed(self._project(hidden), self.words), self.bias)

    def step_logits(self, hidden: tf.Tensor, columns: tf.Tensor | None = None) -> tf.Tensor:
        """The same for a decoding step, which has so few rows that repacking the large matrix W is most of the work.

        (W pᵀ)ᵀ = p Wᵀ does not repack W, and a single row needs no repacking either way. With ``columns``, a copy of Wᵀ
        for any number of steps, neither does, and memory is read in order.
        """
        projected = self._project(hidden)
        copies = copies_of(self.words)
        if columns is not None and copies is not None:
            return matmul_copies(projected, columns, copies, self.bias)
        if columns is not None:
            return tf.nn.bias_add(tf.matmul(projected, columns), self.bias)
        rows = tf.shape(projected)[0]
        return tf.cond(  # adding the bias inside lets the graph optimizer fuse it with the product
            (rows > 1) & (rows <= MAX_TRANSPOSED_ROWS),
            lambda: tf.nn.bias_add(tf.transpose(tf.matmul(self.words, projected, transpose_b=True)), self.bias),
            lambda: tf.nn.bias_add(tf.matmul(projected, self.words, transpose_b=True), self.bias),
        )

    def loss(
        self,
        hidden: tf.Tensor,
        targets: tf.Tensor,
        sample: SampledWords | None,
        positions: tf.Tensor | None = None,
        smoothing: float = 0.0,
    ) -> tf.Tensor:
        """:meth:`sampled_loss` with a sample, or else :meth:`full_loss`.

        With ``smoothing``, that share of the target's probability is on all words alike.
        """
        if sample is not None:
            return self.sampled_loss(hidden, targets, sample, positions)
        if not smoothing:
            return self.full_loss(hidden, targets)
        share = smoothing / self.vocabulary_size
        labels = tf.one_hot(targets, self.vocabulary_size, on_value=1 - smoothing + share, off_value=share)
        return tf.nn.softmax_cross_entropy_with_logits(labels, self.logits(hidden))

    def full_loss(self, hidden: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Cross-entropy over the entire vocabulary. hidden: [tokens, hidden], targets: [tokens] → nats: [tokens]."""
        return tf.nn.sparse_softmax_cross_entropy_with_logits(targets, self.logits(hidden))

    def sampled_loss(
        self, hidden: tf.Tensor, targets: tf.Tensor, sample: SampledWords, positions: tf.Tensor | None = None
    ) -> tf.Tensor:
        """An estimate of :meth:`full_loss` from sampled words (Jean et al. 2015). Same shapes; for training only.

        Cross-entropy over the target word and the sampled ones, each logit minus the logarithm of its word's expected
        count. All accidental hits, sampled words that are the target, are masked; TensorFlow's
        ``sampled_softmax_loss`` masks only one of two.

        Args:
            positions: step and row of each target, int64 [tokens, 2], for a sample that differs from step to step.
        """
        projected, words = self._project(hidden), tf.cast(sample.words, targets.dtype)
        ids = tf.concat([targets, tf.reshape(words, [-1])], axis=0)
        sizes = [tf.shape(targets)[0], tf.size(words)]
        offsets = tf.gather(self.bias, ids) - tf.math.log(tf.gather(sample.expected_counts, ids))
        true_vectors, sampled_vectors = tf.split(tf.gather(self.words, ids), sizes)
        true_offsets, sampled_offsets = tf.split(offsets, sizes)
        true_logits = tf.reduce_sum(projected * true_vectors, axis=1) + true_offsets
        if words.shape.rank == 1:
            sampled_logits = matmul_transposed(projected, sampled_vectors) + sampled_offsets
        else:  # a product for each step, of as many rows
            assert positions is not None
            steps, rows = words.shape[0], tf.reduce_max(positions[:, 1]) + 1
            padded = tf.scatter_nd(positions, projected, tf.stack([steps, rows, projected.shape[1]]))
            products = tf.matmul(padded, tf.reshape(sampled_vectors, [*words.shape, -1]), transpose_b=True)
            products += tf.reshape(sampled_offsets, words.shape)[:, tf.newaxis]
            sampled_logits, words = tf.gather_nd(products, positions), tf.gather(words, positions[:, 0])
        sampled_logits = tf.where(targets[:, tf.newaxis] == words, MASK_VALUE, sampled_logits)
        logits = tf.concat([true_logits[:, tf.newaxis], sampled_logits], axis=1)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.zeros_like(targets), logits)

    def _project(self, hidden: tf.Tensor) -> tf.Tensor:
        return hidden if self.projection is None else self.projection(hidden)


class SampledWords(NamedTuple):
    """The words sampled for one training step, shared by all target words of its batch, or of a decoder's step."""

    words: tf.Tensor  # int64 [sampled], or [decoder steps, sampled]
    expected_counts: tf.Tensor  # of every word: [vocabulary]


class WordSampler:
    """Samples words for the sampled softmax as a function of (seed, step).

    Words are numbered by frequency, and a word's weight falls with its rank like log((rank + 2) / (rank + 1)), as in
    TensorFlow's log-uniform sampler (Zipf's law), unless all words have the same weight. That sampler keeps hidden
    state and estimates expected counts; this one is stateless, and its expected counts are exact: a word's count is
    proportional to its weight, but at most one. Laid end to end, the counts cover the line from 0 to ``sampled``, and
    one point is sampled in each unit of it (stratified sampling, Cochran 1977, ch. 5).

    Args:
        vocabulary_size: words to sample from.
        sampled: words to sample, fewer than ``vocabulary_size``.
        steps: number of the decoder's steps, to sample words for each of them; None: once for all.
        uniform: whether all words have the same weight.
    """

    def __init__(
        self, vocabulary_size: int, sampled: int, seed: int, steps: int | None = None, uniform: bool = False
    ) -> None:
        if not 0 < sampled < vocabulary_size:
            raise ValueError(f"cannot sample {sampled} of {vocabulary_size} words")
        rank = np.arange(vocabulary_size, dtype=np.float64)
        weights = np.ones(vocabulary_size) if uniform else np.log1p(1.0 / (rank + 1.0))
        self._counts = _expected_counts(weights, sampled)
        self._upper = np.cumsum(self._counts)
        self._upper[-1] = sampled  # rounding must not leave a gap at the end
        self._seed, self._shape = seed, [sampled] if steps is None else [steps, sampled]

    def __call__(self, step: tf.Tensor) -> SampledWords:
        """The words of a training step; step: scalar integer."""
        seed = tf.stack([tf.constant(self._seed, tf.int64), tf.cast(step, tf.int64)])
        points = tf.random.stateless_uniform(self._shape, seed, dtype=tf.float64)
        points += tf.range(self._shape[-1], dtype=tf.float64)
        upper, points = tf.constant(self._upper), tf.reshape(points, [-1])
        words = tf.minimum(tf.searchsorted(upper, points, side="right", out_type=tf.int64), len(self._upper) - 1)
        return SampledWords(tf.reshape(words, self._shape), tf.constant(self._counts, tf.float32))


def _expected_counts(weights: np.ndarray, total: float) -> np.ndarray:
    """Counts that sum to ``total``, proportional to weights in descending order, but at most one: [n] → [n]."""
    capped = 0
    while True:
        scale = (total - capped) / weights[capped:].sum()
        above = int(np.count_nonzero(weights[capped:] * scale > 1.0))
        if not above:
            return np.concatenate([np.ones(capped), weights[capped:] * scale])
        capped += above


def softmax_sampler(settings: Training, vocabulary_size: int, seed: int, decoder_steps: int) -> WordSampler | None:
    """The sampler of a sampled softmax; None if that would sample the entire vocabulary."""
    sampled = settings.sampled_softmax
    if sampled is None or sampled >= vocabulary_size:
        return None
    steps = decoder_steps if settings.sampled_softmax_per == "decoder_step" else None
    return WordSampler(vocabulary_size, sampled, seed, steps, uniform=settings.candidate_sampler == "uniform")


INITIAL_LIMIT = 0.8  # initial values are uniform in ±0.8; with ±0.1, gates ignore the words for hundreds of steps


class Embedding(tf.Module):
    """One vector for each word of the vocabulary.

    Args:
        size: dimensions of a vector.
        tied: whether the table is also the output layer's, and gets the initial values of that.
    """

    def __init__(self, name: str, vocabulary_size: int, size: int, seed: int, tied: bool = False) -> None:
        super().__init__()
        shape = [vocabulary_size, size]
        initial = glorot(shape, seed, name) if tied else uniform(shape, INITIAL_LIMIT, seed, name)
        self.table = tf.Variable(initial, name=name)

    def __call__(self, ids: tf.Tensor) -> tf.Tensor:
        """ids: [...] → vectors: [..., size]."""
        return tf.gather(self.table, ids)


def load_vectors(path: str | Path, words: Sequence[str], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Read the vectors of ``words`` from a word2vec or fastText text file.

    Each line is a word and ``size`` numbers, separated by spaces; a first line of two integers (count and size) is
    optional. Words that are not in ``words`` are skipped; the first of duplicate words is used.

    Returns:
        rows: int64 [n], indices into ``words``; vectors: float32 [n, size].

    Raises:
        UserError: the file is missing, not UTF-8, or a line does not have ``size`` numbers.
    """
    remaining = {word: row for row, word in enumerate(words)}
    rows: list[int] = []
    vectors: list[np.ndarray] = []
    try:
        with open(path, encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                word, *numbers = line.rstrip("\r\n ").split(" ")
                if number == 1 and len(numbers) == 1:
                    continue  # the header: number of words, units
                if len(numbers) != size:
                    raise UserError(
                        f"{path}, line {number}: {len(numbers)} numbers, but model.embedding_size is {size}; "
                        "use vectors of that size or change the setting"
                    )
                row = remaining.pop(word, None)
                if row is not None:
                    vectors.append(np.array(numbers, dtype=np.float32))
                    if not np.all(np.isfinite(vectors[-1])):
                        raise ValueError(f"the vector of {word} is not finite")
                    rows.append(row)
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a UTF-8 text file; convert binary vectors to the word2vec text format") from None
    except ValueError as error:
        raise UserError(f"{path}, line {number}: {error}") from None
    except OSError as error:
        raise UserError(f"{path}: could not read pretrained embeddings: {error.strerror}") from None
    return np.array(rows, dtype=np.int64), np.array(vectors, dtype=np.float32).reshape(-1, size)
