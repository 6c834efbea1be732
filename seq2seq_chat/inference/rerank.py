"""Reranking by mutual information: replies that fit everything lose against those that fit what was said.

Source: Li, Galley, Brockett, Gao & Dolan, "A diversity-promoting objective function for neural conversation models",
2016. T is a reply, S what was said, λ a weight::

    anti-language model   log p(T|S) - λ Σ_{k ≤ γ} log p(t_k | t_1 … t_{k-1})      equations 9 to 11
    bidirectional         (1 - λ) log p(T|S) + λ log p(S|T)                        equation 12

The language model p(T) is the model itself, asked what it would say to nothing: a source of no words. p(S|T) is another
model, trained on swapped samples.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from seq2seq_chat.decoding.hypotheses import Hypotheses
from seq2seq_chat.model.seq2seq import Seq2Seq

ROWS_AT_ONCE = 256


class Judge:
    """log P(target | source) of many pairs, as one compiled graph."""

    def __init__(self, model: Seq2Seq) -> None:
        self.source_steps, self.target_steps = model.config.encoder_steps, model.config.decoder_steps
        source, target = (tf.TensorSpec([None, steps], tf.int32) for steps in (self.source_steps, self.target_steps))
        length = tf.TensorSpec([None], tf.int32)
        self._graph = tf.function(
            model.log_probabilities, autograph=False, input_signature=[source, length, target, length]
        )

    def __call__(
        self, source: np.ndarray, source_lengths: np.ndarray, target: np.ndarray, target_lengths: np.ndarray
    ) -> np.ndarray:
        """ids int32 [n, steps] and lengths int32 [n] of sources and targets → nats [n]."""
        pairs = (source, source_lengths, target, target_lengths)
        parts = [
            self._graph(*(tf.constant(part[first : first + ROWS_AT_ONCE], tf.int32) for part in pairs)).numpy()
            for first in range(0, len(source), ROWS_AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def less_like_any_reply(found: Hypotheses, model: Judge, weight: float, words: int) -> Hypotheses:
    """Rank hypotheses, [batch, n, …], by the anti-language model; λ is ``weight``, γ is ``words``."""
    batch, n, steps = found.words.shape
    nothing = np.zeros([batch * n, model.source_steps], np.int32), np.zeros(batch * n, np.int32)
    lengths = np.minimum(found.lengths.reshape(-1), words).astype(np.int32)
    probability = model(*nothing, found.words.reshape(-1, steps), lengths).reshape(batch, n)
    return ranked(found, found.scores - weight * probability)


def ranked(found: Hypotheses, ranks: np.ndarray) -> Hypotheses:
    """The hypotheses ordered by new ranks, [batch, n]; those that do not exist stay last."""
    ranks = np.where(np.isfinite(found.scores), ranks, -np.inf).astype(np.float32)
    order = np.argsort(-ranks, axis=1, kind="stable")
    fields = found._replace(ranks=ranks)
    return Hypotheses(*(np.take_along_axis(f, order.reshape(*order.shape, *[1] * (f.ndim - 2)), 1) for f in fields))
