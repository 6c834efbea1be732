"""The corpus that a model is trained on."""

from __future__ import annotations

from collections.abc import Callable

from seq2seq_chat.config import Config
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.dataset import Dataset


def open_training_corpus(config: Config, codecs: Codecs, on_progress: Callable[[str], object]) -> Dataset:
    """Open the training corpus, without the samples longer than ``data.max_length``.

    Args:
        on_progress: called with a sentence about the samples that were left out, if there are any.

    Raises:
        CorpusError: the corpus cannot be read or has no samples, or none that is short enough.
        UserError: no folder can hold the encoded corpus.
    """
    corpus = Dataset.open(config.data.train, codecs, config.data)
    maximum = config.data.max_length
    if maximum is None:
        return corpus
    kept = corpus.up_to_length(maximum)
    if not len(kept):
        raise CorpusError(
            f"{config.data.train} has no samples left: all {len(corpus):,} have a source or target of more than "
            f"data.max_length, {maximum} tokens; raise it."
        )
    dropped = len(corpus) - len(kept)
    if dropped:
        share = 100 * dropped / len(corpus)
        on_progress(
            f"left out {dropped:,} of {len(corpus):,} training samples ({share:.1f} %) of more than {maximum} tokens"
        )
    return kept
