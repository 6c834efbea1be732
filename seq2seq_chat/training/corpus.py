"""The corpus that a model is trained on."""

from __future__ import annotations

from collections.abc import Callable

from seq2seq_chat.config import Config
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.dataset import Dataset


def open_training_corpus(config: Config, codecs: Codecs, on_progress: Callable[[str], object]) -> Dataset:
    """Open the training corpus, without the samples that are too long if ``data.drop_long_samples`` is set.

    Args:
        on_progress: called with a sentence about the samples that were dropped, if there are any.

    Raises:
        CorpusError: the corpus cannot be read or has no samples, or none that is short enough.
        UserError: no folder can hold the encoded corpus.
    """
    corpus = Dataset.open(config.data.train, codecs, config.data)
    if not config.data.drop_long_samples:
        return corpus
    steps = config.model.encoder_steps, config.model.decoder_steps
    kept = corpus.drop_long_samples(*steps)
    limits = f"more than {steps[0]} source tokens or {steps[1] - 1} target tokens"
    if not len(kept):
        raise CorpusError(
            f"{config.data.train} has no samples left: all {len(corpus):,} have {limits}. Raise model.encoder_steps "
            "and model.decoder_steps, or set data.drop_long_samples to false to cut them."
        )
    dropped = len(corpus) - len(kept)
    if dropped:
        share = 100 * dropped / len(corpus)
        on_progress(f"dropped {dropped:,} of {len(corpus):,} training samples ({share:.1f} %), with {limits}")
    return kept
