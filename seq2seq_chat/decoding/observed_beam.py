"""Beam search that returns after each step, with what it considered: words that were kept, and why others were not.

It finds the same hypotheses as :func:`beam_search`, for one utterance. That is a single graph over many utterances, and
fast; here the model's step is a graph and the beam a list of Python objects, so that everything can be observed, a
search can be stopped between two steps, and words can be forced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from seq2seq_chat.data.vocabulary import EOS, GO, PAD
from seq2seq_chat.decoding.hypotheses import (
    allowed_logits,
    length_divisor,
    reorder_state,
    repeat_rows,
)
from seq2seq_chat.decoding.logit_rules import apply_rules
from seq2seq_chat.decoding.result import NEG_INF, NO_WORD
from seq2seq_chat.decoding.search import SearchInputs
from seq2seq_chat.decoding.search_steps import Candidate, Expansion, Fate, Node, SearchStep
from seq2seq_chat.model.eager import call_with_arrays

REPORTED_CANDIDATES = 10  # of the most probable words, which are reported whatever becomes of them


class Proposals(NamedTuple):
    """The words that may come next: for each hypothesis the best ones that rules allow, the best ones, a given one."""

    words: npt.NDArray[np.int32]  # ids, [rows, n]; a word may occur twice
    log_probabilities: npt.NDArray[np.float32]  # [rows, n]
    allowed: npt.NDArray[np.bool_]  # whether no logit rule forbids the word, [rows, n]
    attention: npt.NDArray[np.float32]  # while choosing the word, [rows, source steps]


Propose = Callable[[npt.NDArray[np.int32], npt.NDArray[np.int32], int, int, int], Proposals]
"""(words so far: [rows, steps]; the row of the previous step that each continues: [rows]; the number of words so far;
how many allowed words to propose; the word to propose in any case) → :class:`Proposals`."""


def propose_words(
    inputs: SearchInputs, history: tf.Tensor, parents: tf.Tensor, t: tf.Tensor, count: tf.Tensor, word: tf.Tensor
) -> tuple[tuple[tf.Tensor, ...], tf.Tensor]:
    """The fields of :class:`Proposals` and the next state, in a graph; arguments as those of :data:`Propose`."""
    rows = tf.shape(history)[0]
    previous = tf.where(t == 0, GO, tf.gather(history, tf.maximum(t - 1, 0), axis=1))
    output = inputs.step(previous, reorder_state(inputs.state, parents), repeat_rows(inputs.memory, rows))
    constrained = apply_rules(inputs.logit_rules, output, history, t)
    original = output.logits - output.normalizer[:, tf.newaxis]
    allowed = allowed_logits(constrained) - constrained.normalizer[:, tf.newaxis]
    vocabulary = output.logits.shape[-1]
    words = tf.concat(
        [
            tf.math.top_k(allowed, tf.minimum(count, vocabulary)).indices,
            # two more, as <pad> and <go> may be among them
            tf.math.top_k(original, min(REPORTED_CANDIDATES + 2, vocabulary)).indices,
            tf.fill([rows, 1], word),
        ],
        axis=1,
    )
    before, after = (tf.gather(part, words, batch_dims=1) for part in (original, allowed))
    is_allowed = after > NEG_INF
    return (words, tf.where(is_allowed, after, before), is_allowed, output.attention), output.state


def observed_beam_search(
    propose: Propose,
    steps: int,
    *,
    width: int,
    n_best: int,
    length_penalty: float = 0.0,
    groups: int = 1,
    diversity: float = 0.0,
    prefix: Sequence[int] = (),
) -> Iterator[SearchStep]:
    """Search, and yield each step; the first ``n_best`` of the last beam are the result of :func:`beam_search`.

    Args:
        propose: the model.
        steps: maximum length of a reply, including the end marker.
        prefix: words that every hypothesis starts with, even if rules forbid them; they cost their log-probability.

    Other arguments are those of :func:`beam_search`.
    """
    lengths = np.arange(steps + 1, dtype=np.int32)
    divisors = call_with_arrays(length_divisor, lengths, np.float32(length_penalty)).numpy().tolist()
    search = _Search(width, n_best, groups, diversity, divisors)
    root = Node(0, None, (), 0.0, 0.0, divisors[0])
    beams, previous = [[root] for _ in range(groups)], [root]
    for t in range(steps):
        active = [node for beam in beams for node in beam if not node.ended]
        if t and (not active or search.is_finished(beams)):
            return
        history = np.full([len(active), steps], PAD, np.int32)
        for row, node in enumerate(active):
            history[row, :t] = node.words
        parents = np.array([previous.index(node.parent or node) for node in active], np.int32)
        forced = prefix[t] if t < len(prefix) else None
        proposals = propose(history, parents, t, search.considered, EOS if forced is None else forced)
        beams, expansions = search.extend(beams, active, proposals, forced)
        previous = active
        yield SearchStep(expansions, ranked(beams))


def ranked(beams: Sequence[Sequence[Node]]) -> list[Node]:
    """The hypotheses of all groups, best first, without duplicates."""
    distinct = {node.words: node for beam in reversed(beams) for node in reversed(beam)}  # the first of equal ones
    nodes = [node for beam in beams for node in beam if distinct[node.words] is node]
    return sorted(nodes, key=lambda node: -node.rank)


class _Search:
    """The bookkeeping of a step; arguments as those of :func:`observed_beam_search`."""

    def __init__(self, width: int, n_best: int, groups: int, diversity: float, divisors: list[float]) -> None:
        self.considered = width + 1  # words of a hypothesis; one more, as the end marker may rank lower than its score
        self._group_size, self._n_best, self._groups = width // groups, n_best, groups
        self._diversity, self._divisors = diversity, divisors
        self._nodes = 1

    def extend(
        self, beams: list[list[Node]], active: list[Node], proposals: Proposals, forced: int | None
    ) -> tuple[list[list[Node]], list[Expansion]]:
        """The beam of each group after one more word, and what became of every candidate."""
        proposed = [self._candidates(node, proposals, row, forced) for row, node in enumerate(active)]
        rows = iter(range(len(active)))
        kept: dict[tuple[int, int], Node] = {}  # by row and word
        extended: list[list[Node]] = []
        chosen_words: list[int] = []
        for beam in beams:
            choices: list[_Choice] = []
            for node in beam:
                row = -1 if node.ended else next(rows)
                choices += [_Choice(node)] if node.ended else [_Choice(node, row, one) for one in proposed[row].choices]
            choices.sort(key=lambda choice: -choice.rank + self._diversity * chosen_words.count(choice.word))
            chosen = choices[: self._group_size]
            for node, row, candidate in chosen:
                if candidate is not None:
                    kept[row, candidate.word] = self._child(node, candidate, proposals.attention[row])
            extended.append([kept.get((one.row, one.word), one.node) for one in chosen])
            chosen_words += [one.word for one in chosen if one.candidate]
        expansions = [
            Expansion(node, proposals.attention[row], _reported(proposed[row].all, row, kept))
            for row, node in enumerate(active)
        ]
        return extended, expansions

    def _candidates(self, node: Node, proposals: Proposals, row: int, forced: int | None) -> _Proposed:
        """The distinct words proposed for a hypothesis."""
        everything: dict[int, Candidate] = {}
        choices = []
        fields = (proposals.words, proposals.log_probabilities, proposals.allowed)
        columns = list(zip(*(field[row].tolist() for field in fields), strict=True))
        for position, (word, log_probability, is_allowed) in enumerate(columns if forced is not None else columns[:-1]):
            if word in everything or word in (PAD, GO):
                continue
            score = node.score + log_probability
            rank = score / self._divisors[len(node.words) + (word != EOS)]
            fate: Fate = "outranked" if is_allowed else "forbidden"
            if forced is not None:
                fate = "outranked" if word == forced else "not_forced"
            everything[word] = Candidate(word, log_probability, score, rank, fate, None)
            if fate == "outranked" and (position < self.considered or forced is not None):
                choices.append(everything[word])
        return _Proposed(list(everything.values()), choices)

    def _child(self, node: Node, candidate: Candidate, attention: npt.NDArray[np.float32]) -> Node:
        words = (*node.words, candidate.word)
        divisor = self._divisors[len(words) - (candidate.word == EOS)]
        number = self._nodes
        self._nodes += 1
        return Node(number, node, words, candidate.score, candidate.rank, divisor, (*node.attention, attention))

    def is_finished(self, beams: list[list[Node]]) -> bool:
        """Whether no active hypothesis can change the result."""
        if self._groups > 1:
            return False  # until all have ended
        (beam,) = beams
        best = beam[: self._n_best]
        worst = best[-1].rank if len(best) == self._n_best else NEG_INF
        bound = max(node.score / self._divisors[-1] for node in beam if not node.ended)
        return all(node.ended for node in best) and bound <= worst


class _Proposed(NamedTuple):
    """The candidates of a hypothesis."""

    all: list[Candidate]
    choices: list[Candidate]  # those that may be kept


class _Choice(NamedTuple):
    """What a beam may keep: a hypothesis that has ended, or a candidate for the next word of one that has not."""

    node: Node
    row: int = -1
    candidate: Candidate | None = None

    @property
    def rank(self) -> float:
        return self.candidate.rank if self.candidate else self.node.rank

    @property
    def word(self) -> int:
        return self.candidate.word if self.candidate else NO_WORD


def _reported(candidates: list[Candidate], row: int, kept: dict[tuple[int, int], Node]) -> list[Candidate]:
    """The candidates of an expansion, with their final fates."""
    ordered = sorted(candidates, key=lambda candidate: -candidate.log_probability)
    nodes = [kept.get((row, candidate.word)) for candidate in ordered]
    return [
        candidate._replace(fate="kept", node=node) if node else candidate
        for position, (candidate, node) in enumerate(zip(ordered, nodes, strict=True))
        if node or position < REPORTED_CANDIDATES
    ]
