"""Hypotheses, the results of searches and scorers: arrays of NumPy, or tensors inside a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

NEG_INF = -float("inf")  # the logit of a forbidden word, and the score of a hypothesis that does not exist
NO_WORD = -1  # an id that no word has
ALTERNATIVES = 5  # most probable tokens that explain a sampled one


class Hypotheses(NamedTuple):
    """The hypotheses of a batch of utterances: best first, or samples in the order of sampling."""

    words: Any  # int32 [batch, n, steps]; with the end marker, then padding
    lengths: Any  # int32 [batch, n]; words of each, including the end marker
    scores: Any  # [batch, n]; sum of log-probabilities in nats; -inf if there is no such hypothesis
    ended: Any  # bool [batch, n]; true: by the end marker, false: truncated at the step limit
    attention: Any  # [batch, n, steps, source steps]
    ranks: Any  # [batch, n]; what they are sorted by: the scores, unless a setting adjusts them

    def at(self, index: Any) -> Hypotheses:
        """Select hypotheses: ``at(row)`` those of an utterance, ``at(np.s_[:, :n])`` the first n of each, …"""
        return Hypotheses(*(field[index] for field in self))


class Candidates(NamedTuple):
    """The best continuations of each hypothesis of a beam, [batch, width, n]; one that has ended has one, itself."""

    words: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]
    ranks: npt.NDArray[np.float32]


OnStep = Callable[[int, Hypotheses], bool]
"""(row of the first utterance of the batch, its hypotheses so far) → whether to continue."""


class SampleScores(NamedTuple):
    """Scores of the samples of a dataset, each [samples]."""

    nats: np.ndarray
    tokens: np.ndarray  # target tokens, including the end marker
    correct: np.ndarray


class Block(NamedTuple):
    """Tokens that were sampled one after the other; the last two fields are None unless they are requested."""

    ids: Any  # [rows, steps]
    probabilities: Any  # of the most probable tokens and then the sampled one, [rows, steps, k + 1]
    most_probable: Any  # ids, [rows, steps, k]
