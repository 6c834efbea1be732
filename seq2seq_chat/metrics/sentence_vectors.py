"""The sentence vectors of a run: a specified Sent2Vec model, or a small one trained on the run's corpus and kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.vocabulary import UNKNOWN
from seq2seq_chat.metrics.sent2vec import Sent2Vec
from seq2seq_chat.metrics.sent2vec_training import train_sent2vec
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import as_user_error

MAX_UTTERANCES = 100_000  # to train on: about a minute on two cores


def load_sentence_vectors(run: Run, folder: Path, model: str | Path | None = None) -> tuple[Sent2Vec, str]:
    """Load the sentence vectors of a run, training them first if necessary.

    Args:
        folder: for the trained model; runs may share it.
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
    if not path.is_file():
        _train(run, path)
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
