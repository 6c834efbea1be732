"""Training a small Sent2Vec model, so that the meaning of replies can be measured where there is no official model.

For every word of a sentence (frequent ones are mostly passed over) the mean v of the sentence's other words and of its
bigrams without this word is to tell it from words drawn at random, the frequent ones more often::

    minimise  log(1 + e^(-u_w · v)) + Σ_n log(1 + e^(u_n · v))

Some bigrams of each sentence are left out each time, so that the words alone have to do as well. Source: Pagliardini,
Gupta & Jaggi 2018, sections 2 and 3. Where the paper takes plain steps, word by word, we take AdaGrad's for a batch of
sentences at once: that is a few sparse matrix products, and words of one batch can share a row without overshooting.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from tqdm import tqdm

from seq2seq_chat.analysis.sent2vec import Arguments, Matrix, Sent2Vec, Sent2VecError, ngram_rows

SENTENCES_AT_ONCE = 64
LEARNING_RATE = 0.2
DROPPED_BIGRAMS = 2  # of every sentence, each time it is learned from
FEW_TOKENS = 50_000  # in a smaller corpus a word counts however rare it is


class Trained(NamedTuple):
    """A model and what its file holds beside it."""

    model: Sent2Vec
    counts: list[int]  # how often each word occurs
    output: Matrix  # [words, dim]
    losses: list[float]  # nats per learned word, epoch by epoch


class _Unit(NamedTuple):
    """The words and bigrams of some sentences, one after the other: int64 [units] each."""

    row: np.ndarray  # whose vector it is
    first: np.ndarray  # place of its first word among all words of the sentences
    last: np.ndarray  # place of its last word


def train_sent2vec(
    sentences: Iterable[list[str]],
    *,
    seed: int,
    dim: int = 100,
    epochs: int = 3,
    buckets: int = 100_000,
    negatives: int = 10,
) -> Trained:
    """Learn from tokenised sentences. The result is a function of them and the seed.

    Raises:
        Sent2VecError: there is no sentence of two words to learn from.
    """
    tokenised = [sentence for sentence in sentences if len(sentence) > 1]
    counted = Counter(word for sentence in tokenised for word in sentence)
    least = 5 if counted.total() > FEW_TOKENS else 1
    ranked = sorted((word for word, count in counted.items() if count >= least), key=lambda w: (-counted[w], w))
    ids = {word: number for number, word in enumerate(ranked)}
    corpus = [[ids[word] for word in sentence if word in ids] for sentence in tokenised]
    corpus = [sentence for sentence in corpus if len(sentence) > 1]
    if not corpus:
        raise Sent2VecError("sentence vectors cannot be learned: the corpus has no utterance of two words")
    counts = [counted[word] for word in ranked]
    arguments = Arguments(dim=dim, epoch=epochs, min_count=least, neg=negatives, bucket=buckets)
    trainer = _Trainer(arguments, np.asarray(counts, dtype=np.float64), seed)
    losses = [trainer.epoch(corpus, number) for number in range(epochs)]
    return Trained(Sent2Vec(arguments, ids, trainer.vectors), counts, trainer.output, losses)


class _Trainer:
    """The vectors while they are learned."""

    def __init__(self, arguments: Arguments, counts: np.ndarray, seed: int) -> None:
        self._arguments, self._rng, self._words = arguments, np.random.default_rng(seed), len(counts)
        rows = self._words + arguments.bucket
        self.vectors: Matrix = self._rng.uniform(-1, 1, (rows, arguments.dim)).astype(np.float32) / arguments.dim
        self.output: Matrix = np.zeros((self._words, arguments.dim), dtype=np.float32)
        self._squares = np.full(rows, 1e-6, np.float32), np.full(self._words, 1e-6, np.float32)  # AdaGrad's, by row
        shares = counts / counts.sum()
        self._keep = np.sqrt(arguments.t / shares) + arguments.t / shares
        roots = np.sqrt(counts)
        self._negative_steps = np.cumsum(roots / roots.sum())

    def epoch(self, corpus: list[list[int]], number: int) -> float:
        """Learn from every sentence once, in an order of its own; the mean loss of a learned word in nats."""
        order = self._rng.permutation(len(corpus))
        starts = range(0, len(order), SENTENCES_AT_ONCE)
        loss, learned = 0.0, 0
        with tqdm(
            total=len(order),
            desc=f"sentence vectors, epoch {number + 1} of {self._arguments.epoch}",
            unit="sentence",
            delay=2,
            disable=not sys.stderr.isatty(),
            leave=False,
        ) as bar:
            for start in starts:
                chosen = [corpus[place] for place in order[start : start + SENTENCES_AT_ONCE]]
                left = 1 - (number + start / len(order)) / self._arguments.epoch
                nats, words = self._learn(chosen, LEARNING_RATE * max(left, 1e-3))
                loss, learned = loss + nats, learned + words
                bar.update(len(chosen))
        return loss / max(learned, 1)

    def _learn(self, sentences: list[list[int]], rate: float) -> tuple[float, int]:
        """One step; returns the sum of the losses and the number of words learned."""
        words = np.concatenate([np.asarray(sentence, np.int64) for sentence in sentences])
        targets = np.flatnonzero(self._rng.random(len(words)) < self._keep[words])
        means, rows, targets = self._contexts(sentences, targets)
        if not len(targets):
            return 0.0, 0
        v = means @ self.vectors[rows]  # [targets, dim]

        drawn = np.searchsorted(self._negative_steps, self._rng.random((len(targets), self._arguments.neg)))
        drawn = np.minimum(drawn, self._words - 1)
        asked = np.concatenate([words[targets][:, np.newaxis], drawn], axis=1)  # the right word first
        right = np.zeros(asked.shape, np.float32)
        right[:, 0] = 1
        counts = np.ones(asked.shape, np.float32)
        counts[:, 1:] = drawn != asked[:, :1]  # a drawn word that is the right one is no wrong one
        u = self.output[asked]  # [targets, 1 + negatives, dim]
        scores = np.matmul(u, v[:, :, np.newaxis])[:, :, 0]
        nats = float(np.sum(counts * np.logaddexp(0, np.where(right > 0, -scores, scores))))
        errors = counts * (1 / (1 + np.exp(-scores)) - right)  # dL/dscore

        dv = np.matmul(errors[:, np.newaxis], u)[:, 0]
        touched, places = np.unique(asked, return_inverse=True)
        target_of = np.repeat(np.arange(len(targets)), asked.shape[1])
        du = csr_matrix((errors.ravel(), (places.ravel(), target_of)), shape=(len(touched), len(targets))) @ v
        _adagrad(self.vectors, self._squares[0], rows, means.T @ dv, rate)
        _adagrad(self.output, self._squares[1], touched, du, rate)
        return nats, len(targets)

    def _contexts(self, sentences: list[list[int]], targets: np.ndarray) -> tuple[csr_matrix, np.ndarray, np.ndarray]:
        """What is to tell each target word: means [targets, rows], their rows, and the targets that have any."""
        units, ends = self._units(sentences)
        lengths = np.array([len(sentence) for sentence in sentences])
        sentence_of = np.repeat(np.arange(len(sentences)), lengths)[targets]
        starts = np.concatenate([[0], ends[:-1]])
        sizes = (ends - starts)[sentence_of]
        # every target with every unit of its sentence, then without those that hold the target itself
        pair_target = np.repeat(np.arange(len(targets)), sizes)
        within = np.arange(len(pair_target)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        pair_unit = np.repeat(starts[sentence_of], sizes) + within
        place = targets[pair_target]
        others = (units.first[pair_unit] > place) | (units.last[pair_unit] < place)
        pair_target, pair_unit = pair_target[others], pair_unit[others]
        amounts = np.bincount(pair_target, minlength=len(targets))
        kept = amounts > 0
        renumbered = np.cumsum(kept) - 1
        rows, columns = np.unique(units.row[pair_unit], return_inverse=True)
        weights = (1 / amounts[pair_target]).astype(np.float32)
        shape = (int(kept.sum()), len(rows))
        means = csr_matrix((weights, (renumbered[pair_target], columns.ravel())), shape=shape)
        return means, rows, targets[kept]

    def _units(self, sentences: list[list[int]]) -> tuple[_Unit, np.ndarray]:
        """Words and bigrams of sentences without the dropped ones, and where those of each sentence end."""
        found = list(self._units_of_each(sentences))
        parts = (np.concatenate([np.asarray(unit[part], np.int64) for unit in found]) for part in range(3))
        return _Unit(*parts), np.cumsum([len(unit[0]) for unit in found])

    def _units_of_each(self, sentences: list[list[int]]) -> Iterator[tuple[list[int], list[int], list[int]]]:
        begin = 0
        draws = self._rng.random((len(sentences), DROPPED_BIGRAMS))
        for sentence, draw in zip(sentences, draws, strict=True):
            places = list(range(begin, begin + len(sentence)))
            bigrams = ngram_rows(sentence, 2, self._words, self._arguments.bucket)
            dropped = {int(x * len(bigrams)) for x in draw}
            kept = [n for n in range(len(bigrams)) if n not in dropped]
            yield (
                sentence + [bigrams[n] for n in kept],
                places + [begin + n for n in kept],
                places + [begin + n + 1 for n in kept],
            )
            begin += len(sentence)


def _adagrad(table: np.ndarray, squares: np.ndarray, rows: np.ndarray, gradients: np.ndarray, rate: float) -> None:
    """Move rows of a table against their gradients: [rows, dim]; ``squares`` holds each row's mean squares so far."""
    squares[rows] += np.mean(np.square(gradients), axis=1)
    table[rows] -= rate * gradients / np.sqrt(squares[rows])[:, np.newaxis]
