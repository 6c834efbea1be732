"""Replies to the samples of a corpus, for validation, evaluation and the report."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.replies import Hypothesis, SourceText, source_text
from seq2seq_chat.config import Decoding, override_decoding
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.search.batches import MAX_ROWS


def greedy(decoding: Decoding) -> Decoding:
    """Greedy search with the logit rules of ``decoding``."""
    return override_decoding(decoding, method="greedy", n_best=1)


def decode_corpus(
    bot: Chatbot, corpus: Dataset, decoding: Decoding, indices: npt.NDArray[np.integer], rows: int = MAX_ROWS
) -> Iterator[Hypothesis]:
    """Yield the best hypothesis for each of some samples, in their order: the one way from batch to text.

    Args:
        indices: The samples, [n].
        rows: Maximum number of samples in a batch.
    """
    reader = bot.reader(decoding)
    for start in range(0, len(indices), rows):
        block = indices[start : start + rows]
        batch = corpus.batch(
            block,
            size=len(block),
            source_steps=bot.config.model.encoder_steps,
            target_steps=1,
            reverse=bot.config.data.reverse_input,
        )
        sources, utterances = [SourceText([], "")] * len(block), list[list[str]]()
        if reader.replaces_unknown or decoding.rerank == "bidirectional":
            samples = corpus.samples(block)
            sources = [source_text(corpus, index, sample) for index, sample in zip(block, samples, strict=True)]
            utterances = [sample.source_tokens for sample in samples]
        hypotheses = bot.search_and_rerank(batch.source, batch.source_length, decoding, utterances, decoding.seed)
        for row, source in enumerate(sources):
            yield reader.read(hypotheses.at((row, 0)), source)
