"""What a configuration's data section asks for: the vocabulary, and the samples of a corpus file."""

from __future__ import annotations

from pathlib import Path
from typing import Union

from seq2seq_chat.config import Data
from seq2seq_chat.corpus.encoded import EncodedCorpus
from seq2seq_chat.corpus.samples import read_tokens
from seq2seq_chat.corpus.vocabulary import TURN, Vocabulary


def training_vocabulary(data: Data) -> Vocabulary:
    """The first ``vocabulary_size`` words of the configured file, or the most frequent ones of the training corpus.

    Where sources have several turns, the marker between them takes the last place.

    Raises:
        CorpusError, VocabularyError: the file cannot be used.
    """
    if data.vocabulary is None:
        tokens = (words for _, words in read_tokens(data.train, data.level, progress=True))
        vocabulary = Vocabulary.from_counts(Vocabulary.count(tokens), data.vocabulary_size)
    else:
        vocabulary = Vocabulary.load(data.vocabulary)
        vocabulary = Vocabulary(vocabulary.words[: data.vocabulary_size], source=data.vocabulary)
    if data.context_turns > 1 and TURN not in vocabulary:
        vocabulary = Vocabulary([*vocabulary.words[: data.vocabulary_size - 1], TURN])
    return vocabulary


def open_samples(path: Union[str, Path], vocabulary: Vocabulary, data: Data) -> EncodedCorpus:
    """The samples of a corpus file as the configuration wants them; see :meth:`EncodedCorpus.open`."""
    return EncodedCorpus.open(
        path,
        vocabulary,
        level=data.level,
        pairing=data.pairing,
        turns=data.context_turns,
        swapped=data.swap_samples,
    )
