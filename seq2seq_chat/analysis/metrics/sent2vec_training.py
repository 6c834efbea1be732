"""Train a small Sent2Vec model on the corpus of a run, for lack of an official model.

Each word w of a sentence (frequent words are subsampled) is predicted from the mean v of the sentence's other words and
the bigrams that do not contain it, with negative sampling::

    minimize  log(1 + e^(-u_w · v)) + Σ_n log(1 + e^(u_n · v))

A few bigrams of each sentence are dropped at random. Source: Pagliardini, Gupta & Jaggi 2018, sections 2 and 3. The
paper uses plain SGD, word by word; we use AdaGrad on batches of sentences, which takes a few sparse matrix products and
does not overshoot when words of a batch share a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from tqdm import tqdm

from seq2seq_chat.analysis.metrics.sent2vec import Arguments, Matrix, Sent2Vec, Sent2VecError, ngram_rows

BATCH_SIZE = 64
LEARNING_RATE = 0.2
DROPPED_BIGRAMS = 2  # per sentence and epoch
SMALL_CORPUS = 50_000  # tokens; smaller corpora keep rare words


class TrainedSent2Vec(NamedTuple):
    """A trained model, what else its file contains, and the losses of training."""

    model: Sent2Vec
    counts: list[int]  # occurrences of each word
    output: Matrix  # [words, dim]
    losses: list[float]  # nats per target word, by epoch


class _Units(NamedTuple):
    """The words and bigrams of a batch of sentences, concatenated: int64 [units] each."""

    row: np.ndarray  # of the vector
    first: np.ndarray  # position of the first word in the concatenated sentences
    last: np.ndarray  # position of the last word


def train_sent2vec(
    sentences: Iterable[list[str]],
    *,
    seed: int,
    dim: int = 100,
    epochs: int = 3,
    buckets: int = 100_000,
) -> TrainedSent2Vec:
    """Train on tokenized sentences; deterministic for a given seed.

    Raises:
        Sent2VecError: No sentence has two words.
    """
    tokenized = [sentence for sentence in sentences if len(sentence) > 1]
    counted = Counter(word for sentence in tokenized for word in sentence)
    min_count = 5 if counted.total() > SMALL_CORPUS else 1
    ranked = sorted((word for word, count in counted.items() if count >= min_count), key=lambda w: (-counted[w], w))
    ids = {word: number for number, word in enumerate(ranked)}
    corpus = [[ids[word] for word in sentence if word in ids] for sentence in tokenized]
    corpus = [sentence for sentence in corpus if len(sentence) > 1]
    if not corpus:
        raise Sent2VecError("the corpus has no utterance of two or more words")
    counts = [counted[word] for word in ranked]
    arguments = Arguments(dim=dim, epoch=epochs, min_count=min_count, bucket=buckets)
    trainer = _Trainer(arguments, np.asarray(counts, dtype=np.float64), seed)
    losses = [trainer.epoch(corpus, number) for number in range(epochs)]
    return TrainedSent2Vec(Sent2Vec(arguments, ids, trainer.vectors), counts, trainer.output, losses)


class _Trainer:
    """The vectors during training."""

    def __init__(self, arguments: Arguments, counts: np.ndarray, seed: int) -> None:
        self._arguments, self._rng, self._words = arguments, np.random.default_rng(seed), len(counts)
        rows = self._words + arguments.bucket
        self.vectors: Matrix = self._rng.uniform(-1, 1, (rows, arguments.dim)).astype(np.float32) / arguments.dim
        self.output: Matrix = np.zeros((self._words, arguments.dim), dtype=np.float32)
        # AdaGrad accumulators, one per row
        self._squares = np.full(rows, 1e-6, np.float32), np.full(self._words, 1e-6, np.float32)
        shares = counts / counts.sum()
        self._keep = np.sqrt(arguments.t / shares) + arguments.t / shares
        roots = np.sqrt(counts)
        self._negative_cdf = np.cumsum(roots / roots.sum())

    def epoch(self, corpus: list[list[int]], number: int) -> float:
        """Train on every sentence once, in random order; return the mean loss in nats per target word."""
        order = self._rng.permutation(len(corpus))
        loss, targets = 0.0, 0
        with tqdm(
            total=len(order),
            desc=f"sentence vectors, epoch {number + 1} of {self._arguments.epoch}",
            unit="sentence",
            delay=2,
            disable=None,
            leave=False,
        ) as bar:
            for start in range(0, len(order), BATCH_SIZE):
                batch = [corpus[index] for index in order[start : start + BATCH_SIZE]]
                remaining = 1 - (number + start / len(order)) / self._arguments.epoch
                nats, words = self._train_step(batch, LEARNING_RATE * max(remaining, 1e-3))
                loss, targets = loss + nats, targets + words
                bar.update(len(batch))
        return loss / max(targets, 1)

    def _train_step(self, sentences: list[list[int]], rate: float) -> tuple[float, int]:
        """One AdaGrad step; return the summed loss in nats and the number of target words."""
        words = np.concatenate([np.asarray(sentence, np.int64) for sentence in sentences])
        targets = np.flatnonzero(self._rng.random(len(words)) < self._keep[words])
        means, rows, targets = self._contexts(sentences, targets)
        if not len(targets):
            return 0.0, 0
        v = means @ self.vectors[rows]  # [targets, dim]

        negatives = np.searchsorted(self._negative_cdf, self._rng.random((len(targets), self._arguments.neg)))
        negatives = np.minimum(negatives, self._words - 1)
        candidates = np.concatenate([words[targets][:, np.newaxis], negatives], axis=1)  # the target comes first
        labels = np.zeros(candidates.shape, np.float32)
        labels[:, 0] = 1
        mask = np.ones(candidates.shape, np.float32)
        mask[:, 1:] = negatives != candidates[:, :1]  # ignore negatives that equal the target
        u = self.output[candidates]  # [targets, 1 + negatives, dim]
        scores = np.matmul(u, v[:, :, np.newaxis])[:, :, 0]
        nats = float(np.sum(mask * np.logaddexp(0, np.where(labels > 0, -scores, scores))))
        errors = mask * (1 / (1 + np.exp(-scores)) - labels)  # dL/dscore

        dv = np.matmul(errors[:, np.newaxis], u)[:, 0]
        output_rows, positions = np.unique(candidates, return_inverse=True)
        target_of = np.repeat(np.arange(len(targets)), candidates.shape[1])
        du = csr_matrix((errors.ravel(), (positions.ravel(), target_of)), shape=(len(output_rows), len(targets))) @ v
        _adagrad(self.vectors, self._squares[0], rows, means.T @ dv, rate)
        _adagrad(self.output, self._squares[1], output_rows, du, rate)
        return nats, len(targets)

    def _contexts(self, sentences: list[list[int]], targets: np.ndarray) -> tuple[csr_matrix, np.ndarray, np.ndarray]:
        """Average the context of each target word.

        Returns:
            Weights [targets, rows] whose product with the vectors of ``rows`` gives the means, those rows, and the
            targets that have any context.
        """
        units, ends = self._units(sentences)
        lengths = np.array([len(sentence) for sentence in sentences])
        sentence_of = np.repeat(np.arange(len(sentences)), lengths)[targets]
        starts = np.concatenate([[0], ends[:-1]])
        sizes = (ends - starts)[sentence_of]
        # pair each target with every unit of its sentence, then drop the units that contain the target
        pair_target = np.repeat(np.arange(len(targets)), sizes)
        within = np.arange(len(pair_target)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        pair_unit = np.repeat(starts[sentence_of], sizes) + within
        position = targets[pair_target]
        context = (units.first[pair_unit] > position) | (units.last[pair_unit] < position)
        pair_target, pair_unit = pair_target[context], pair_unit[context]
        context_sizes = np.bincount(pair_target, minlength=len(targets))
        kept = context_sizes > 0
        renumbered = np.cumsum(kept) - 1
        rows, columns = np.unique(units.row[pair_unit], return_inverse=True)
        weights = (1 / context_sizes[pair_target]).astype(np.float32)
        shape = (int(kept.sum()), len(rows))
        means = csr_matrix((weights, (renumbered[pair_target], columns.ravel())), shape=shape)
        return means, rows, targets[kept]

    def _units(self, sentences: list[list[int]]) -> tuple[_Units, np.ndarray]:
        """The words and remaining bigrams of sentences, and where those of each sentence end."""
        sentence_units = list(self._sentence_units(sentences))
        columns = (np.concatenate([np.asarray(units[n], np.int64) for units in sentence_units]) for n in range(3))
        return _Units(*columns), np.cumsum([len(units[0]) for units in sentence_units])

    def _sentence_units(self, sentences: list[list[int]]) -> Iterator[tuple[list[int], list[int], list[int]]]:
        start = 0
        uniform = self._rng.random((len(sentences), DROPPED_BIGRAMS))
        for sentence, numbers in zip(sentences, uniform, strict=True):
            positions = list(range(start, start + len(sentence)))
            bigrams = ngram_rows(sentence, 2, self._words, self._arguments.bucket)
            dropped = {int(x * len(bigrams)) for x in numbers}
            kept = [n for n in range(len(bigrams)) if n not in dropped]
            yield (
                sentence + [bigrams[n] for n in kept],
                positions + [start + n for n in kept],
                positions + [start + n + 1 for n in kept],
            )
            start += len(sentence)


def _adagrad(table: np.ndarray, squares: np.ndarray, rows: np.ndarray, gradients: np.ndarray, rate: float) -> None:
    """Update rows of a table by their gradients [rows, dim]; ``squares`` accumulates each row's mean square."""
    squares[rows] += np.mean(np.square(gradients), axis=1)
    table[rows] -= rate * gradients / np.sqrt(squares[rows])[:, np.newaxis]
