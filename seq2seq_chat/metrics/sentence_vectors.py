"""Sentence vectors of a run, and distances between the meanings of a reply and its reference.

The Sent2Vec distance is the thesis's metric: both texts are embedded, and the Euclidean distances are averaged. Lower
is better. Compare it only between evaluations that used the same embeddings. Cosine similarity (higher is better)
ignores vector length.

For lack of an official model, a small one is trained on the corpus of the run. Each word w of a sentence (frequent
words are subsampled) is predicted from the mean v of the sentence's other words and the bigrams that do not contain
it, with negative sampling::

    minimize  log(1 + e^(-u_w · v)) + Σ_n log(1 + e^(u_n · v))

A few bigrams of each sentence are dropped at random. Source: Pagliardini, Gupta & Jaggi 2018, sections 2 and 3. The
paper uses plain SGD, word by word; we use AdaGrad on batches of sentences, which takes a few sparse matrix products and
does not overshoot when words of a batch share a row.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from tqdm import tqdm

from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.metrics.sent2vec import Arguments, Matrix, Sent2Vec, Sent2VecError, concatenate, ngram_rows
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import as_user_error, file_checksum, write_atomically
from seq2seq_chat.text.vocabulary import UNKNOWN

logger = logging.getLogger(__name__)

BATCH_SIZE = 64
LEARNING_RATE = 0.2
DROPPED_BIGRAMS = 2  # per sentence and epoch
SMALL_CORPUS = 50_000  # tokens; smaller corpora keep rare words
MAX_UTTERANCES = 100_000  # to train on: about a minute on two cores


class TrainedSent2Vec(NamedTuple):
    """A trained model, what else its file contains, and the losses of training."""

    model: Sent2Vec
    counts: list[int]  # occurrences of each word
    output: Matrix  # [words, dim]
    losses: list[float]  # nats per target word, by epoch


class _Corpus(NamedTuple):
    """Sentences of word ids, one after the other.

    Position p has two units: 2p is its word, 2p + 1 the bigram of this word and the next one.
    """

    rows: np.ndarray  # of the vectors of all units, int64 [2 · words]
    inside: np.ndarray  # bool [words]: whether the next word belongs to the same sentence
    starts: np.ndarray  # position of the first word of each sentence, [sentences]
    lengths: np.ndarray  # words of each sentence, [sentences]

    @classmethod
    def of_sentences(cls, sentences: Iterable[list[int]], arguments: Arguments, words: int) -> _Corpus:
        """Join sentences of words with ids below ``words``."""
        ids, sentence_of = concatenate(sentences)
        rows, inside = np.repeat(ids, 2), np.zeros(len(ids), bool)
        for bigrams, within in ngram_rows(ids, sentence_of, arguments, words):
            rows[1:-1:2], inside[:-1] = bigrams, within
        lengths = np.bincount(sentence_of)
        return cls(rows, inside, np.cumsum(lengths) - lengths, lengths)

    def select(self, sentences: np.ndarray) -> _Corpus:
        """Some of the sentences, in the given order."""
        lengths = self.lengths[sentences]
        positions = _ranges(self.starts[sentences], lengths)
        rows = self.rows.reshape(-1, 2)[positions].ravel()
        return _Corpus(rows, self.inside[positions], np.cumsum(lengths) - lengths, lengths)


def train_sent2vec(
    sentences: Iterable[list[str]], *, seed: int, dim: int = 100, epochs: int = 3, buckets: int = 100_000
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
    known = ([ids[word] for word in sentence if word in ids] for sentence in tokenized)
    counts = [counted[word] for word in ranked]
    arguments = Arguments(dim=dim, epoch=epochs, min_count=min_count, bucket=buckets)
    corpus = _Corpus.of_sentences((sentence for sentence in known if len(sentence) > 1), arguments, len(ids))
    if not len(corpus.lengths):
        raise Sent2VecError("the corpus has no utterance of two or more words")
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
        self._occurs, self._index_of = np.zeros(rows, bool), np.zeros(rows, np.int32)  # see _renumber

    def epoch(self, corpus: _Corpus, number: int) -> float:
        """Train on every sentence once, in random order; return the mean loss in nats per target word."""
        order = self._rng.permutation(len(corpus.lengths))
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
                batch = corpus.select(order[start : start + BATCH_SIZE])
                remaining = 1 - (number + start / len(order)) / self._arguments.epoch
                nats, words = self._train_step(batch, LEARNING_RATE * max(remaining, 1e-3))
                loss, targets = loss + nats, targets + words
                bar.update(len(batch.lengths))
        return loss / targets if targets else 0.0

    def _train_step(self, sentences: _Corpus, rate: float) -> tuple[float, int]:
        """One AdaGrad step; return the summed loss in nats and the number of target words."""
        words = sentences.rows[::2]
        targets = np.flatnonzero(self._rng.random(len(words)) < self._keep[words])
        means, rows, targets = self._contexts(sentences, targets)
        if not len(targets):
            return 0.0, 0
        v = means @ self.vectors[rows]  # [targets, dim]

        negatives = np.searchsorted(self._negative_cdf, self._rng.random((len(targets), self._arguments.neg)))
        negatives = np.minimum(negatives, self._words - 1)
        candidates = np.concatenate([words[targets][:, np.newaxis], negatives], axis=1)  # the target comes first
        u = self.output[candidates]  # [targets, 1 + negatives, dim]
        scores = np.matmul(u, v[:, :, np.newaxis])[:, :, 0]
        errors = 1 / (1 + np.exp(-scores))  # dL/dscore
        scores[:, 0] *= -1
        nats = np.logaddexp(0, scores)
        errors[:, 0] -= 1
        repeated = negatives == candidates[:, :1]  # ignore negatives that equal the target
        errors[:, 1:][repeated] = nats[:, 1:][repeated] = 0

        dv = np.matmul(errors[:, np.newaxis], u)[:, 0]
        columns, output_rows = self._renumber(candidates.ravel())
        starts = np.arange(0, candidates.size + 1, candidates.shape[1])
        du = csr_matrix((errors.ravel(), columns, starts), shape=(len(targets), len(output_rows))).T @ v
        _adagrad(self.vectors, self._squares[0], rows, means.T @ dv, rate)
        _adagrad(self.output, self._squares[1], output_rows, du, rate)
        return float(nats.sum()), len(targets)

    def _contexts(self, sentences: _Corpus, targets: np.ndarray) -> tuple[csr_matrix, np.ndarray, np.ndarray]:
        """Average the context of each target word: the other words, and the bigrams that do not contain it.

        Returns:
            Weights [targets, rows] whose product with the vectors of ``rows`` gives the means, those rows, and the
            targets that have any context.
        """
        kept = np.ones(len(sentences.rows), bool)
        kept[1::2] = sentences.inside
        uniform = self._rng.random((len(sentences.lengths), DROPPED_BIGRAMS))
        dropped = sentences.starts[:, np.newaxis] + (uniform * (sentences.lengths - 1)[:, np.newaxis]).astype(np.int64)
        kept[2 * dropped + 1] = False
        sentence_of = np.repeat(np.arange(len(sentences.lengths)), sentences.lengths)[targets]
        sizes = 2 * sentences.lengths[sentence_of]
        # pair each target with every unit of its sentence, then drop the units that contain the target
        target_of, unit = np.repeat(np.arange(len(targets)), sizes), _ranges(2 * sentences.starts[sentence_of], sizes)
        context = kept[unit] & (np.abs(unit - 2 * targets[target_of]) > 1)
        sizes = np.bincount(target_of[context], minlength=len(targets))
        columns, rows = self._renumber(sentences.rows[unit[context]])
        some = sizes > 0
        sizes, targets = sizes[some], targets[some]
        weights = np.repeat((1 / sizes).astype(np.float32), sizes)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return csr_matrix((weights, columns, starts), shape=(len(targets), len(rows))), rows, targets

    def _renumber(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The index of each row among the distinct ones, and these, ascending; faster than np.unique."""
        self._occurs[rows] = True
        distinct = np.flatnonzero(self._occurs)
        self._occurs[distinct] = False
        self._index_of[distinct] = np.arange(len(distinct))
        return self._index_of[rows], distinct


def _ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Several ranges of integers, one after the other."""
    return np.arange(sizes.sum()) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)


def _adagrad(table: np.ndarray, squares: np.ndarray, rows: np.ndarray, gradients: np.ndarray, rate: float) -> None:
    """Update rows of a table by their gradients [rows, dim], which become steps; ``squares``: sums of mean squares."""
    squares[rows] += np.einsum("ij,ij->i", gradients, gradients) / gradients.shape[1]
    gradients *= (rate / np.sqrt(squares[rows]))[:, np.newaxis]
    table[rows] -= gradients


class SentenceDistances(NamedTuple):
    """Distance and cosine similarity of each reply and its reference, [samples] each."""

    euclidean: npt.NDArray[np.float64]
    cosine: npt.NDArray[np.float64]

    @classmethod
    def of_blocks(cls, vectors: Sent2Vec, blocks: Iterable[tuple[Sequence[str], Sequence[str]]]) -> SentenceDistances:
        """Embed blocks of hypotheses and their references, in the same order."""
        distances, similarities = [np.zeros(0)], [np.zeros(0)]
        for block in blocks:
            a, b = (vectors.embed(texts).astype(np.float64) for texts in block)
            distances.append(np.linalg.norm(a - b, axis=1))
            similarities.append(paired_cosine_similarity(a, b))
        return cls(np.concatenate(distances), np.concatenate(similarities))

    def select(self, selected: npt.NDArray[np.bool_]) -> SentenceDistances:
        return SentenceDistances(self.euclidean[selected], self.cosine[selected])

    def means(self) -> tuple[float | None, float | None]:
        """Mean Euclidean distance and mean cosine similarity, -1 to 1; None without samples."""
        if not len(self.euclidean):
            return None, None
        return float(self.euclidean.mean()), float(self.cosine.mean())


def paired_cosine_similarity(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine similarity of each pair of rows, 0 if either is the zero vector: [n, dim], [n, dim] → [n]."""
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    products = np.einsum("ij,ij->i", first, second)
    return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)


def load_sentence_vectors(run: Run, folder: Path, model: str | Path | None = None) -> tuple[Sent2Vec, str]:
    """Load the sentence vectors of a run, training them first if necessary.

    Args:
        folder: for the trained model, which is trained again if it is damaged; runs may share it.
        model: a binary Sent2Vec model to use instead.

    Returns:
        The vectors, and a phrase that says where they come from.

    Raises:
        UserError: The model cannot be read or written, or the training corpus is unavailable.
    """
    if model is not None:
        vectors = Sent2Vec.load(model)
        return vectors, f"the Sent2Vec model {model} ({vectors.dim} dimensions)"
    path = folder / f"sent2vec_{_fingerprint(run)}.bin"
    checksum_file = path.with_suffix(".crc32")
    with suppress(FileNotFoundError):  # nothing is trained yet, or by a version that wrote no checksum
        if checksum_file.read_bytes().decode(errors="replace") != file_checksum(path):
            logger.warning("%s is damaged; training it again", path)
            path.unlink()
    if not path.is_file():
        checksum_file.unlink(missing_ok=True)
        _train(run, path)
        write_atomically(checksum_file, file_checksum(path))
    vectors = Sent2Vec.load(path)
    return vectors, f"Sent2Vec vectors of {vectors.dim} dimensions, trained on this run's training corpus"


def _fingerprint(run: Run) -> str:
    """A hash of what the trained vectors of a run depend on."""
    names = {"train", "tokenizer", "target_tokenizer", "lowercase", "pairing", "swap_source_target"}
    content = [run.config.seed, run.config.data.model_dump(include=names), run.codecs.fingerprints()]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def _train(run: Run, path: Path) -> None:
    """Train on the known words of evenly spaced training targets, and write the model."""
    data, codecs = run.config.data, run.codecs
    try:
        corpus = Dataset.open(data.train, codecs, data)
        targets = corpus.targets(evenly_spaced(len(corpus), MAX_UTTERANCES))
        utterances = (codecs.target.words(ids[ids != UNKNOWN].tolist()) for ids in targets)
        trained = train_sent2vec(utterances, seed=run.config.seed)
    except UserError as error:
        raise UserError(
            f"could not train sentence vectors ({error}); specify a Sent2Vec model with --sent2vec FILE"
        ) from error
    with as_user_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    trained.model.save(path, trained.counts, trained.output)
