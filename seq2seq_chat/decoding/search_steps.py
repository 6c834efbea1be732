"""What a beam search considered at each step, for those who watch it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.data.vocabulary import EOS

Fate = Literal["kept", "outranked", "forbidden", "not_forced"]
"""kept in the beam; other hypotheses rank better; a logit rule forbids it; another word was forced."""


@dataclass(frozen=True, eq=False)
class Node:
    """A hypothesis that was kept at some step: a node of the tree of all of them."""

    number: int  # in the order in which they were kept; 0 is the root, which has no words
    parent: Node | None
    words: tuple[int, ...]  # with the end marker
    score: float  # sum of log-probabilities, nats
    rank: float  # what hypotheses are sorted by: score / divisor
    divisor: float  # see length_divisor
    attention: tuple[npt.NDArray[np.float32], ...] = ()  # of each word

    @property
    def ended(self) -> bool:
        """Whether it ends with the end marker."""
        return self.words[-1:] == (EOS,)


class Candidate(NamedTuple):
    """A word that might continue a hypothesis."""

    word: int
    log_probability: float
    score: float  # with this word
    rank: float
    fate: Fate
    node: Node | None  # what it became, if it was kept


class Expansion(NamedTuple):
    """A hypothesis and its candidates, most probable first: some of them, and all that were kept."""

    node: Node
    attention: npt.NDArray[np.float32]  # [source steps]
    candidates: list[Candidate]


class SearchStep(NamedTuple):
    """One step of a search: each active hypothesis was extended by a word."""

    expansions: list[Expansion]
    beam: list[Node]  # the hypotheses that were kept, best first, without duplicates; some may have ended before
