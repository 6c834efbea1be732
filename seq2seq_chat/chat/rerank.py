"""Reranking by mutual information, which favors replies that fit the utterance over replies that fit any.

Source: Li, Galley, Brockett, Gao & Dolan, "A diversity-promoting objective function for neural conversation models",
2016. T is a reply, S the utterance, λ a weight::

    anti-language model   log p(T|S) - λ Σ_{k ≤ γ} log p(t_k | t_1 … t_{k-1})      equations 9 to 11
    bidirectional         (1 - λ) log p(T|S) + λ log p(S|T)                        equation 12

The language model p(T) is the model itself with an empty source. p(S|T) is another model, trained with source and
target swapped.
"""

from __future__ import annotations

import numpy as np

from seq2seq_chat.engines.protocols import ExactScorer
from seq2seq_chat.search.hypotheses import NEG_INF, Hypotheses


def rerank_anti_lm(hypotheses: Hypotheses, scorer: ExactScorer, weight: float, prefix_length: int) -> Hypotheses:
    """Rerank hypotheses, [batch, n, …], by the anti-language model; λ is ``weight``, γ is ``prefix_length``."""
    batch, n, steps = hypotheses.words.shape
    empty_source = np.zeros([batch * n, scorer.source_steps], np.int32), np.zeros(batch * n, np.int32)
    lengths = np.minimum(hypotheses.lengths.reshape(-1), prefix_length).astype(np.int32)
    log_p = scorer.log_probabilities(*empty_source, hypotheses.words.reshape(-1, steps), lengths).reshape(batch, n)
    return rerank(hypotheses, hypotheses.scores - weight * log_p)


def rerank_bidirectional(hypotheses: Hypotheses, backward: np.ndarray, weight: float) -> Hypotheses:
    """Rerank hypotheses by log p(S|T), [batch, n]; λ is ``weight``."""
    return rerank(hypotheses, (1 - weight) * hypotheses.scores + weight * backward.reshape(hypotheses.scores.shape))


def rerank(hypotheses: Hypotheses, ranks: np.ndarray) -> Hypotheses:
    """Sort hypotheses by new ranks, [batch, n]; those that do not exist stay last."""
    ranks = np.where(np.isfinite(hypotheses.scores), ranks, NEG_INF).astype(np.float32)
    order = np.argsort(-ranks, axis=1, kind="stable")
    rows = np.arange(len(order))[:, np.newaxis]
    return hypotheses._replace(ranks=ranks).at((rows, order))
