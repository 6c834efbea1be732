"""What a search asks of an engine, and the hypotheses that it returns: arrays of NumPy, or tensors inside a graph."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Decoding

NEG_INF = -float("inf")  # the logit of a forbidden word, and the score of a hypothesis that does not exist
NO_WORD = -1  # an id that no word has
ALTERNATIVES = 5  # most probable tokens that explain a sampled one

Entries = npt.NDArray[np.int32]
"""Entries of the logits: (row, word), [n, 2]."""
NO_ENTRIES: Entries = np.zeros([0, 2], np.int32)


class Edits(NamedTuple):
    """Changes to the logits of a step."""

    banned: tuple[int, ...] = ()  # words that are forbidden in every row
    forbidden: Entries = NO_ENTRIES
    penalized: Entries = NO_ENTRIES  # positive logits are divided by the penalty, negative ones multiplied
    penalty: float = 1.0


class Hypotheses(NamedTuple):
    """The hypotheses of a batch of utterances: best first, or samples in the order of sampling."""

    words: Any  # int32 [batch, n, steps]; with the end marker, then padding
    lengths: Any  # int32 [batch, n]; words of each, including the end marker
    scores: Any  # [batch, n]; sum of log-probabilities in nats; -inf if there is no such hypothesis
    ended: Any  # bool [batch, n]; true: by the end marker, false: truncated at the step limit
    attention: Any  # [batch, n, steps, source steps]
    ranks: Any  # [batch, n]; what they are sorted by: the scores, unless a setting adjusts them

    def at(self, index: Any) -> Hypotheses:
        """Select hypotheses: ``at(row)`` all of an utterance, ``at(np.s_[:, :n])`` the first n of each, …"""
        return Hypotheses(*(field[index] for field in self))


class Candidates(NamedTuple):
    """The best continuations of each hypothesis of a beam, [batch, width, n]; one that has ended has one, itself."""

    words: Any  # int32
    scores: Any
    ranks: Any


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


ALL_WORDS = int(np.iinfo(np.int32).max)  # top_k that truncates nothing
ALL_PROBABILITY = math.inf  # top_p that truncates nothing, even if rounded probabilities add up to more than 1
MIN_TEMPERATURE = 1e-6  # logits divided by less could overflow, and the most probable word is certain already

State: TypeAlias = Any
"""What an engine keeps for each active hypothesis; a search only hands it on."""


class Rows(NamedTuple):
    """The state of an engine that keeps a row of arrays or tensors for each hypothesis."""

    state: Sequence[Any]  # of the decoder, [rows, …] each
    memory: Sequence[Any]  # what the decoder reads at every step, [rows, …] each
    utterances: npt.NDArray[np.int32]  # of each row, [rows]


class WordDistribution(NamedTuple):
    """The distribution to sample from.

    softmax(logits / temperature), truncated to the ``top_k`` most probable words (Fan et al. 2018), then to the fewest
    whose probabilities add up to at least ``top_p`` (nucleus sampling, Holtzman et al. 2020), and renormalized. Of
    equally probable words, those with lower ids come first.
    """

    temperature: float
    top_k: int  # ALL_WORDS truncates nothing
    top_p: float  # ALL_PROBABILITY truncates nothing

    @classmethod
    def of_settings(cls, decoding: Decoding) -> WordDistribution:
        """Return the distribution that settings describe."""
        top_k, top_p = decoding.top_k, decoding.top_p
        return cls(
            max(decoding.temperature, MIN_TEMPERATURE),
            ALL_WORDS if top_k is None else min(top_k, ALL_WORDS),
            ALL_PROBABILITY if top_p is None else top_p,
        )


class BlockRequest(NamedTuple):
    """What a language model is asked to sample."""

    token: np.ndarray  # the last one, ids int32 [rows]
    uniform: np.ndarray  # random numbers in [0, 1), [rows, steps]
    distribution: WordDistribution
    forbidden: tuple[int, ...] = ()  # tokens that are never sampled
    explain: bool = False  # whether to return probabilities, which are those at temperature 1


class Sampling(NamedTuple):
    """A distribution, and random numbers to sample from it."""

    uniform: npt.NDArray[np.float64]  # in [0, 1), [rows]
    distribution: WordDistribution


class StepRequest(NamedTuple):
    """One step of a search: a word is fed to each active hypothesis, a row."""

    words: npt.NDArray[np.int32]  # the last word of each, [rows]
    parents: npt.NDArray[np.int32]  # row of the step before whose state each continues, at first the utterance: [rows]
    edits: Edits
    k: int = 1  # next words to return, fewer if the vocabulary is smaller; 0: all, in the order of ids: [1, words]
    sampling: Sampling | None = None  # to sample one next word, rather than to return the most probable ones
    forced: npt.NDArray[np.int32] | None = None  # words whose log-probabilities are needed, [rows]
    reported: int = 0  # most probable words to report although rules may forbid them


class Reported(NamedTuple):
    """The most probable words before logit rules apply."""

    words: npt.NDArray[np.int32]  # [rows, n]
    log_probabilities: npt.NDArray[np.float32]  # nats, with the rules; without them for forbidden words: [rows, n]
    allowed: npt.NDArray[np.bool_]  # whether no rule forbids the word, [rows, n]


class StepOutput(NamedTuple):
    """The next words of each row, most probable first, or the sampled one; of equally probable ones, by id."""

    words: npt.NDArray[np.int32]  # [rows, k]
    log_probabilities: npt.NDArray[np.float32]  # nats; -inf for forbidden words: [rows, k]
    attention: npt.NDArray[np.float32]  # while choosing the word, [rows, source steps], which may be 0
    forced: npt.NDArray[np.float32] | None = None  # log-probabilities of the forced words: [rows]
    reported: Reported | None = None


class Engine(Protocol):
    """A model of conversations or translations."""

    def start(self, source: np.ndarray, lengths: np.ndarray) -> State:
        """Encode sources, ids int32 [batch, source steps] and lengths int32 [batch]; return the first state."""

    def step(self, state: State, request: StepRequest) -> tuple[StepOutput, State]:
        """Reorder the state by parent, feed the words, and choose the next ones under the edits."""


Search: TypeAlias = Generator[StepRequest, StepOutput, Hypotheses]
"""A search asks for steps and is sent their outputs; so the steps of several searches can be computed together."""


def search_steps(engine: Engine, search: Search, state: State) -> Iterator[Hypotheses | None]:
    """Run a search; yield None after each step that another one follows, and finally the result."""
    try:
        request = next(search)
        while True:
            output, state = engine.step(state, request)
            request = search.send(output)
            yield None
    except StopIteration as end:
        yield end.value


def run_search(engine: Engine, search: Search, state: State) -> Hypotheses:
    """Run a search to its end."""
    *_, result = search_steps(engine, search, state)
    assert result is not None
    return result
