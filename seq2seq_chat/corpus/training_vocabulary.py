"""The vocabulary of an experiment: its file, or counted on its training corpus."""

from __future__ import annotations

from seq2seq_chat.config import Data
from seq2seq_chat.corpus.samples import read_tokens
from seq2seq_chat.corpus.vocabulary import Vocabulary


def training_vocabulary(data: Data) -> Vocabulary:
    """The first ``vocabulary_size`` words of the configured file, or the most frequent ones of the training corpus.

    Raises:
        CorpusError, VocabularyError: the file cannot be used.
    """
    if data.vocabulary is None:
        tokens = (words for _, words in read_tokens(data.train, data.level, progress=True))
        return Vocabulary.from_counts(Vocabulary.count(tokens), data.vocabulary_size)
    vocabulary = Vocabulary.load(data.vocabulary)
    return Vocabulary(vocabulary.words[: data.vocabulary_size], source=data.vocabulary)
