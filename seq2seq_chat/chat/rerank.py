"""Reranking by mutual information, which favors replies that fit the utterance over replies that fit any.

Source: Li, Galley, Brockett, Gao & Dolan, "A diversity-promoting objective function for neural conversation models",
2016. T is a reply, S the utterance, λ a weight::

    anti-language model   log p(T|S) - λ Σ_{k ≤ γ} log p(t_k | t_1 … t_{k-1})      equations 9 to 11
    bidirectional         (1 - λ) log p(T|S) + λ log p(S|T)                        equation 12

The language model p(T) is the model itself with an empty source. p(S|T) is another model, trained with source and
target swapped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.engines.protocols import MAX_LOGITS, ExactScorer, LanguageModelEngine
from seq2seq_chat.search.engine import NEG_INF, Hypotheses


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


MAX_STREAMS = 64
MIN_LENGTH = 512  # tokens of a stream: in shorter ones, too much is read twice
MAX_STEPS = 256  # read in one call
WARM_UP = 512  # tokens before a stream, from which its first state is estimated; at most MIN_LENGTH
TOLERANCE = 1e-3  # between the units of two states that count as equal


class TextScore(NamedTuple):
    """How well a model predicts a text, from its second token on."""

    nats: float
    tokens: int
    correct: int  # tokens that are the most probable ones


class LanguageModelScorer:
    """Scores texts, many tokens at a time.

    A text is divided into streams that are read in parallel, although each starts from the state in which the one
    before it ends. That state is estimated first, from a few hundred tokens. Once everything is read, the streams that
    have started from another state than that in which the one before has ended are read again, until there are none. A
    recurrent network forgets, so these are few.

    Args:
        engine: computes with the model.
    """

    def __init__(self, engine: LanguageModelEngine) -> None:
        self._engine = engine
        self.streams_read = 0  # for the last text, repetitions included

    def score(self, tokens: npt.NDArray[Any]) -> TextScore:
        """Score a text. tokens: ids [n].

        Raises:
            ValueError: there are fewer than two tokens.
        """
        predicted = len(tokens) - 1
        if predicted < 1:
            raise ValueError("a text needs at least two tokens")
        count = max(1, min(MAX_STREAMS, predicted // MIN_LENGTH))
        length, rest = divmod(predicted, count)
        starts = np.arange(count) * length
        states, ends = self._estimate(tokens, starts), self._engine.start(count)
        sums = np.zeros([2, count])  # of nats and correct tokens
        differing, self.streams_read = np.arange(count), 0
        while len(differing):
            first_states = [state[differing] for state in states]
            sums[:, differing], last_states = self._read(tokens, starts[differing], length, first_states)
            for end, last in zip(ends, last_states, strict=True):
                end[differing] = last
            self.streams_read += len(differing)
            expected = [np.concatenate([np.zeros_like(end[:1]), end[:-1]]) for end in ends]
            pairs = zip(map(np.tanh, states), map(np.tanh, expected), strict=True)  # a memory cell is read through tanh
            distances = [np.max(np.abs(one - two), axis=1) for one, two in pairs]
            differing = np.flatnonzero(np.max(distances, axis=0) > TOLERANCE)
            for state, better in zip(states, expected, strict=True):
                state[differing] = better[differing]
        # the last stream is followed by fewer tokens than there are streams
        tail, _ = self._read(tokens, starts[-1:] + length, rest, [end[-1:] for end in ends])
        nats, correct = sums.sum(axis=1) + tail[:, 0]
        return TextScore(float(nats), predicted, int(correct))

    def _estimate(self, tokens: npt.NDArray[Any], starts: np.ndarray) -> list[np.ndarray]:
        """The states before each stream, from the tokens before it; zero before the first."""
        states = self._engine.start(len(starts))
        if len(starts) > 1:
            _, ends = self._read(tokens, starts[1:] - WARM_UP, WARM_UP, [state[1:] for state in states])
            for state, end in zip(states, ends, strict=True):
                state[1:] = end
        return states

    def _read(
        self, tokens: npt.NDArray[Any], starts: np.ndarray, length: int, states: list[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Read ``length`` tokens from each start.

        Returns:
            nats and correct predictions of the tokens that follow them, [2, streams], and the states at the end.
        """
        sums = np.zeros([2, len(starts)])
        steps = int(max(1, min(MAX_STEPS, MAX_LOGITS / self._engine.vocabulary_size / len(starts))))
        for first in range(0, length, steps):
            positions = starts[:, np.newaxis] + np.arange(first, min(first + steps, length))
            inputs, targets = (tokens[positions + shift].astype(np.int32) for shift in (0, 1))
            some, states = self._engine.score(inputs, targets, states)
            sums += some
        return sums, states
