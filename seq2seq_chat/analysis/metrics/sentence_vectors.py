"""The sentence vectors of a run: an official model if there is one, else a small one learned from the run's corpus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from seq2seq_chat.analysis.sent2vec import Sent2Vec
from seq2seq_chat.analysis.sent2vec_training import train_sent2vec
from seq2seq_chat.atomic import told_as_user_error
from seq2seq_chat.corpus.experiment_data import open_samples
from seq2seq_chat.corpus.text import detokenize
from seq2seq_chat.corpus.vocabulary import UNKNOWN
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run
from seq2seq_chat.training.validation import spread

MOST_UTTERANCES = 100_000  # that are learned from: a minute on two cores
FILE = "sent2vec.bin"


def sentence_vectors(run: Run, folder: Path, model: str | Path | None = None) -> tuple[Sent2Vec, str]:
    """The vectors, and a sentence that says where they are from.

    Args:
        folder: where a model that has to be learned is kept.
        model: an official binary model, to be used as it is.

    Raises:
        UserError: the model cannot be read, there is no training corpus to learn one from, or it cannot be kept.
    """
    if model is not None:
        vectors = Sent2Vec.load(model)
        return vectors, f"the Sent2Vec model {model} ({vectors.dim} dimensions)"
    path = folder / FILE
    if not path.is_file():
        _learn(run, path)
    vectors = Sent2Vec.load(path)
    return vectors, f"Sent2Vec vectors of {vectors.dim} dimensions, learned from this run's training corpus"


def _learn(run: Run, path: Path) -> None:
    try:
        trained = train_sent2vec(utterances(run, MOST_UTTERANCES), seed=run.config.seed)
    except UserError as fault:
        raise UserError(
            f"no sentence vectors can be learned ({fault}); give a Sent2Vec model with --sent2vec FILE"
        ) from fault
    with told_as_user_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    trained.model.save(path, trained.counts, trained.output)


def utterances(run: Run, most: int) -> Iterator[list[str]]:
    """The words of at most so many replies of the training corpus, evenly spread, as far as the model knows them."""
    data, vocabulary = run.config.data, run.vocabulary
    corpus = open_samples(data.train, vocabulary, data)
    for sample in spread(len(corpus), most):
        known = [int(word) for word in corpus.target_ids(int(sample)) if word != UNKNOWN]
        yield detokenize(vocabulary.tokens(known), data.level).split()
