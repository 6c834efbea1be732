"""Validation during training: the exact loss (full softmax, teacher forcing, no dropout) and sample replies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seq2seq_chat.config import Data, Decoding
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.buckets import Bucket
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.tokenizers import get_tokenizer
from seq2seq_chat.data.vocabulary import Vocabulary
from seq2seq_chat.inference.reply_search import ReplySearch
from seq2seq_chat.inference.scorer import Scorer
from seq2seq_chat.model.seq2seq import Seq2Seq


class CorpusLoss(NamedTuple):
    """The exact loss of a model on a corpus."""

    nats: float  # sum over all target tokens
    tokens: int  # target tokens, end markers included
    samples: int

    @property
    def loss(self) -> float:
        """Nats per target token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """See :func:`perplexity`."""
        return perplexity(self.loss)


def perplexity(loss: float) -> float:
    """e^loss of a loss in nats per token, or infinity if that is too large for a float."""
    return math.exp(loss) if loss < 700 else math.inf


def corpus_loss(
    scorer: Scorer, corpus: Dataset, buckets: Sequence[Bucket], reverse_input: bool, limit: int | None = None
) -> CorpusLoss:
    """Compute the exact loss of a model on a corpus.

    Args:
        scorer: of the model.
        corpus: samples.
        buckets: step limits, the model's own last.
        reverse_input: whether the encoder reads the last word first.
        limit: number of samples to use, evenly spaced; None: all.
    """
    indices = None if limit is None else evenly_spaced(len(corpus), limit)
    nats, tokens, samples = 0.0, 0, 0
    for positions, _, scores in scorer.score_batches(corpus, buckets, reverse_input, indices):
        nats, tokens = nats + float(scores.loss.nats), tokens + int(scores.loss.tokens)
        samples += len(positions)
    return CorpusLoss(nats, tokens, samples)


class Reply(NamedTuple):
    """The model's reply to an utterance of the validation corpus."""

    source: str
    reply: str
    target: str


class ReplySampler:
    """Generates greedy replies to some utterances of a corpus.

    Args:
        model: the model that replies.
        vocabulary: its vocabulary.
        corpus: where the utterances come from.
        data: tokenization and order of the input.
        count: number of replies.
        allow_unknown: whether replies may contain <unknown>.
    """

    def __init__(
        self, model: Seq2Seq, vocabulary: Vocabulary, corpus: Dataset, data: Data, count: int, allow_unknown: bool
    ) -> None:
        self._corpus, self._vocabulary, self._tokenizer = corpus, vocabulary, get_tokenizer(data.level)
        self._search = ReplySearch(model, Decoding(method="greedy", allow_unknown=allow_unknown))
        self._samples = evenly_spaced(len(corpus), count)
        if len(self._samples):
            self._batch = corpus.batch(
                self._samples,
                size=len(self._samples),
                source_steps=model.config.encoder_steps,
                target_steps=model.config.decoder_steps,
                reverse=data.reverse_input,
            )

    def __call__(self) -> list[Reply]:
        """Reply to the utterances with the model's current weights."""
        if not len(self._samples):
            return []
        hypotheses = self._search(self._batch.source, self._batch.source_length)
        replies = [words[0, : length[0]] for words, length in zip(hypotheses.words, hypotheses.lengths, strict=True)]
        return [
            Reply(self._text(self._corpus.source_ids(i)), self._text(reply), self._text(self._corpus.target_ids(i)))
            for i, reply in zip(self._samples, replies, strict=True)
        ]

    def _text(self, ids: np.ndarray) -> str:
        return self._vocabulary.text(ids, self._tokenizer)


class Validator:
    """Evaluates the current weights of a model on the validation corpus.

    Args:
        scorer: of the model.
        replies: generates sample replies.
        corpus: the validation corpus.
        buckets: step limits, the model's own last.
        reverse_input: whether the encoder reads the last word first.
        limit: number of samples to use, evenly spaced; None: all.
    """

    def __init__(
        self,
        scorer: Scorer,
        replies: ReplySampler,
        corpus: Dataset,
        buckets: Sequence[Bucket],
        reverse_input: bool,
        limit: int | None,
    ) -> None:
        self._scorer, self._corpus, self._buckets = scorer, corpus, buckets
        self._reverse_input, self._limit = reverse_input, limit
        self.replies = replies

    def loss(self) -> CorpusLoss:
        """The exact loss."""
        return corpus_loss(self._scorer, self._corpus, self._buckets, self._reverse_input, self._limit)
