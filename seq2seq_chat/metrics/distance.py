"""Distances: between the meanings of a reply and its reference, and between two distributions.

The Sent2Vec distance is the thesis's metric: both texts are embedded, and the Euclidean distances are averaged. Lower
is better. Compare it only between evaluations that used the same embeddings. Cosine similarity (higher is better)
ignores vector length.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import rel_entr

from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.metrics.sent2vec import Sent2Vec
from seq2seq_chat.metrics.sent2vec_training import train_sent2vec
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import as_user_error, file_checksum, write_atomically
from seq2seq_chat.text.vocabulary import UNKNOWN

logger = logging.getLogger(__name__)


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
        """Those of some of the samples."""
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
    similarities: np.ndarray = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    return similarities


def jensen_shannon(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> float | None:
    """Jensen–Shannon divergence of two count vectors in bits: 0 (equal) to 1 (disjoint). Source: Lin 1991.

    Returns:
        The divergence, or None if either vector sums to zero.
    """
    p, q = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if not p.sum() or not q.sum():
        return None
    p, q = p / p.sum(), q / q.sum()
    mixture = (p + q) / 2
    return float(rel_entr(p, mixture).sum() + rel_entr(q, mixture).sum()) / (2 * math.log(2))


MAX_UTTERANCES = 100_000  # to train on: about a minute on two cores


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
    try:
        trained = train_sent2vec(training_utterances(run, MAX_UTTERANCES), seed=run.config.seed)
    except UserError as error:
        raise UserError(
            f"could not train sentence vectors ({error}); specify a Sent2Vec model with --sent2vec FILE"
        ) from error
    with as_user_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    trained.model.save(path, trained.counts, trained.output)


def training_utterances(run: Run, limit: int) -> Iterator[list[str]]:
    """The known words of up to ``limit`` evenly spaced training targets."""
    data, codecs = run.config.data, run.codecs
    corpus = Dataset.open(data.train, codecs, data)
    for ids in corpus.targets(evenly_spaced(len(corpus), limit)):
        yield codecs.target.words(ids[ids != UNKNOWN].tolist())
