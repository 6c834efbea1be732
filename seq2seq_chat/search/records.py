"""What a beam search considered at each step, for those who watch it: words that were kept, and why others were not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.search.engine import Candidates, StepOutput
from seq2seq_chat.text.vocabulary import EOS, GO, PAD

SHOWN_CANDIDATES = 10  # of the most probable words, which are shown whatever becomes of them
REPORTED_CANDIDATES = SHOWN_CANDIDATES + 2  # <pad> and <go> may be among them

Fate = Literal["kept", "outranked", "forbidden", "not_forced"]
"""kept in the beam; other hypotheses rank better; a logit rule forbids it; another word was forced."""


@dataclass(frozen=True, eq=False)
class Node:
    """A hypothesis that was kept at some step: a node of the tree of all of them."""

    number: int  # in the order in which they were kept; 0 is the root, which has no words
    parent: Node | None
    words: tuple[int, ...]  # with the end marker
    score: float  # sum of log-probabilities, nats
    rank: float  # what hypotheses are sorted by
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


class Recorder:
    """Keeps the last step of the beam search for one utterance.

    Args:
        divisors: What the score of a hypothesis of n words is divided by to rank it, [steps + 1].
    """

    def __init__(self, divisors: npt.NDArray[np.float32]) -> None:
        self._divisors = divisors.tolist()
        self._root = Node(0, None, (), 0.0, 0.0)
        self._nodes: list[Node | None] = []  # of each place in the beam
        self._count = 1
        self.step: SearchStep | None = None

    def record(
        self, output: StepOutput, candidates: Candidates, choices: np.ndarray, active: np.ndarray, forced: int
    ) -> None:
        """Record a step.

        Args:
            output: What the engine returned.
            candidates: See :class:`Candidates`; batch is 1.
            choices: Those that were chosen, [1, width], indices into width · n.
            active: Places in the beam whose hypotheses were extended, ascending.
            forced: The word that continues every hypothesis; ``NO_WORD`` if none is forced.
        """
        places = self._nodes or [self._root] * candidates.words.shape[1]
        row_of = {int(place): row for row, place in enumerate(active)}
        kept: dict[tuple[int, int], Node] = {}  # by row and word
        nodes: list[Node | None] = []
        for choice in choices[0].tolist():
            place, index = divmod(choice, candidates.words.shape[2])
            node, score = places[place], float(candidates.scores[0, place, index])
            if node is None or not np.isfinite(score):
                nodes.append(None)
            elif place not in row_of:
                nodes.append(node)
            else:
                row, word = row_of[place], int(candidates.words[0, place, index])
                rank, attention = float(candidates.ranks[0, place, index]), (*node.attention, output.attention[row])
                kept[row, word] = Node(self._count, node, (*node.words, word), score, rank, attention)
                self._count += 1
                nodes.append(kept[row, word])
        expansions = []
        for row, place in enumerate(active.tolist()):
            parent = places[place]
            assert parent is not None
            found = self._candidates(parent, output, row, kept, forced)
            expansions.append(Expansion(parent, output.attention[row], found))
        self._nodes = nodes
        self.step = SearchStep(expansions, _ranked([node for node in nodes if node is not None]))

    def _candidates(
        self, node: Node, output: StepOutput, row: int, kept: dict[tuple[int, int], Node], forced: int
    ) -> list[Candidate]:
        """List the most probable words after a hypothesis and all that were kept, most probable first."""
        assert output.reported is not None
        found: dict[int, Candidate] = {}
        chosen = zip(output.words[row].tolist(), output.log_probabilities[row].tolist(), strict=True)
        columns = [(word, log_probability, True) for word, log_probability in chosen]
        columns += zip(*(field[row].tolist() for field in output.reported), strict=True)
        if output.forced is not None:
            columns.append((forced, float(output.forced[row]), True))
        for word, log_probability, is_allowed in columns:
            if word in found or word in (PAD, GO) or not np.isfinite(log_probability):
                continue
            child = kept.get((row, word))
            score = node.score + log_probability
            rank = score / self._divisors[len(node.words) + (word != EOS)]
            fate: Fate = "outranked" if is_allowed else "forbidden"
            if output.forced is not None:
                fate = "outranked" if word == forced else "not_forced"
            found[word] = Candidate(word, log_probability, score, rank, "kept" if child else fate, child)
        ordered = sorted(found.values(), key=lambda candidate: -candidate.log_probability)
        return [one for position, one in enumerate(ordered) if one.node or position < SHOWN_CANDIDATES]


def _ranked(nodes: Sequence[Node]) -> list[Node]:
    """The hypotheses of all groups, best first, without duplicates."""
    distinct = {node.words: node for node in reversed(nodes)}  # the first of equal ones
    return sorted((node for node in nodes if distinct[node.words] is node), key=lambda node: -node.rank)
