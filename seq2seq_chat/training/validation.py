"""The exact loss of a model on a corpus: full softmax, teacher forcing, no dropout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from seq2seq_chat.corpus.buckets import Bucket
from seq2seq_chat.corpus.encoded import Batch, EncodedCorpus
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training.batches import Batches
from seq2seq_chat.training.parts import loss_in_parts

MOST_ROWS = 64
LOGITS_AT_ONCE = 30e6  # [tokens, vocabulary]: bounds the memory of the full softmax


class CorpusLoss(NamedTuple):
    """What a model thinks of a corpus."""

    nats: float  # summed over all target tokens
    tokens: int  # target tokens, end markers included
    samples: int

    @property
    def loss(self) -> float:
        """Nats per target token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """e^loss; infinite where that is more than a number holds."""
        return perplexity(self.loss)


def perplexity(loss: float) -> float:
    """e^loss of a loss in nats per token."""
    return math.exp(loss) if loss < 700 else math.inf


class LossFunction:
    """The exact loss as one graph for each bucket, for any number of corpora.

    Args:
        model: whose loss.
        buckets: step limits, the model's own last.
        reverse_input: whether the encoder reads last word first.
        parts: parts of a batch that are computed side by side.
    """

    def __init__(self, model: Seq2Seq, buckets: Sequence[Bucket], reverse_input: bool, parts: int = 1) -> None:
        self._buckets, self._reverse = buckets, reverse_input
        self._rows = max(1, min(MOST_ROWS, int(LOGITS_AT_ONCE / model.vocabulary_size / buckets[-1][1])))
        parts = min(parts, self._rows)
        self._graph = tf.function(lambda *batch: loss_in_parts(model, Batch(*batch), parts), autograph=False)

    def __call__(
        self, corpus: EncodedCorpus, limit: Optional[int] = None, tick: Callable[[int], object] = lambda samples: None
    ) -> CorpusLoss:
        """The loss over ``limit`` samples spread evenly over the corpus, or all; ``tick`` is told of progress."""
        chosen = None if limit is None else spread(len(corpus), limit)
        batches = Batches(corpus, self._buckets, size=self._rows, reverse=self._reverse, chosen=chosen)
        nats, tokens = 0.0, 0
        for batch, samples in batches:
            loss = self._graph(*(tf.constant(part) for part in batch))
            nats, tokens = nats + float(loss.nats), tokens + int(loss.tokens)
            tick(samples)
        return CorpusLoss(nats, tokens, sum(batches.sizes))


def spread(available: int, wanted: Optional[int]) -> np.ndarray:
    """``wanted`` indices evenly spread over ``available`` ones, or all: int64, ascending."""
    if wanted is None or wanted >= available:
        return np.arange(available, dtype=np.int64)
    return np.arange(wanted, dtype=np.int64) * available // wanted
