"""The tokens of the sources of some samples as they are written, also those that are not in the vocabulary."""

from __future__ import annotations

import numpy as np

from seq2seq_chat.config import Data
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.pairs import Corpus
from seq2seq_chat.data.samples import Sample, samples_at


def source_tokens(corpus: Dataset, codecs: Codecs, index: int, sample: Sample) -> list[str]:
    """The tokens of one source. In turns before the last one, unknown words are ``<unknown>``.

    Args:
        index: That of the sample in the corpus.
        sample: Its texts and tokens.
    """
    tokens = codecs.source.vocabulary.tokens(corpus.source_ids(index))
    return tokens[: len(tokens) - len(sample.source_tokens)] + sample.source_tokens


def read_source_tokens(
    files: Corpus, settings: Data, codecs: Codecs, corpus: Dataset, samples: np.ndarray
) -> list[list[str]]:
    """The tokens of the sources of some samples, ascending, of an opened corpus. Raises CorpusError."""
    read = samples_at(files, settings, codecs.tokenizers, samples)
    return [source_tokens(corpus, codecs, index, sample) for index, sample in zip(samples, read, strict=True)]
