"""Searches for any number of utterances: in batches that fit into memory, with the settings' method."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Decoding, Model
from seq2seq_chat.search.engine import Engine, Hypotheses, Search, run_search, search_steps
from seq2seq_chat.search.methods import OnStep, SearchSize, beam_search, length_divisor, sequential_search
from seq2seq_chat.search.records import Recorder, SearchStep

MAX_ROWS = 640  # hypotheses decoded together: bounds the memory of the logits, [rows, vocabulary]

Seeds = int | Sequence[int] | npt.NDArray[np.int64]
Prefixes = Sequence[Sequence[int]]
"""Ids of the words that the reply to each utterance starts with; no sequence if none starts with any."""
WholeSearch = Callable[[np.ndarray, np.ndarray, Seeds | None], Hypotheses]
"""(source: ids [n, source steps], lengths: [n], seed: see :func:`search_in_batches`) → hypotheses."""


class ReplySearch:
    """A search with the given settings, without reranking, over an engine.

    Args:
        steps: Maximum length of a reply, including the end marker.
        source_steps: Width of the attention; 0 without attention.
        graph: Finds the same hypotheses faster, where nobody watches.
    """

    def __init__(
        self, engine: Engine, decoding: Decoding, steps: int, source_steps: int, graph: WholeSearch | None = None
    ) -> None:
        self._engine, self.decoding, self._steps, self._source_steps = engine, decoding, steps, source_steps
        self._graph = graph

    def __call__(
        self, source: np.ndarray, lengths: np.ndarray, seed: Seeds | None = None, prefixes: Prefixes = ()
    ) -> Hypotheses:
        """Search for replies to encoded utterances; see :func:`search_in_batches`."""
        if self._graph is not None and not prefixes:
            return self._graph(source, lengths, seed)
        return search_in_batches(self._search, self.decoding, self._steps, source, lengths, seed, prefixes)

    def watch(self, source: np.ndarray, length: np.ndarray, prefix: Sequence[int] = ()) -> Iterator[SearchStep]:
        """Yield the steps of the beam search for one utterance.

        Args:
            source: Ids [1, source steps].
            length: [1].
            prefix: Ids of the words that a reply starts with.
        """
        recorder = Recorder(length_divisor(np.arange(self._steps + 1), self.decoding.length_penalty))
        size = SearchSize(1, self._steps, self._source_steps)
        search = beam_search(size, self.decoding, [prefix], recorder=recorder)
        for _ in search_steps(self._engine, search, self._engine.start(source, length)):
            assert recorder.step is not None
            yield recorder.step

    def begin(self, source: np.ndarray, seeds: Seeds, on_step: OnStep | None, prefixes: Prefixes = ()) -> Search:
        """Return the search for a batch of utterances, whose steps the caller computes.

        Args:
            source: Ids int32 [n, source steps].
            seeds: Seeds of sampling, one for each utterance.
            on_step: Called after each step; None if nobody watches.
            prefixes: What the replies start with.
        """
        return self._begin(uniform_numbers(seeds, source, samples_of(self.decoding), self._steps), on_step, prefixes)

    def _search(self, source: np.ndarray, lengths: np.ndarray, uniform: np.ndarray, prefixes: Prefixes) -> Hypotheses:
        return run_search(self._engine, self._begin(uniform, None, prefixes), self._engine.start(source, lengths))

    def _begin(self, uniform: np.ndarray, on_step: OnStep | None, prefixes: Prefixes = ()) -> Search:
        size, decoding = SearchSize(len(uniform), self._steps, self._source_steps), self.decoding
        if decoding.method == "beam":
            return beam_search(size, decoding, prefixes, on_step)
        return sequential_search(size, decoding, prefixes, on_step, uniform if samples_of(decoding) else None)


class StepEngine(Engine):
    """An engine whose searches consist of its steps."""

    def __init__(self, config: Model, has_attention: bool) -> None:
        self._limits = config.decoder_steps, config.encoder_steps if has_attention else 0

    @property
    def steps(self) -> StepEngine:
        """Computes the steps of searches."""
        return self

    def search(self, decoding: Decoding) -> ReplySearch:
        """Return the search with the given settings, without reranking."""
        return ReplySearch(self, decoding, *self._limits)


def samples_of(decoding: Decoding) -> int:
    """How many hypotheses are sampled for each utterance; 0 unless the method samples."""
    return decoding.n_best if decoding.method == "sample" else 0


def rows_of(decoding: Decoding) -> int:
    """The most hypotheses that a search for an utterance extends at once."""
    return decoding.beam_width if decoding.method == "beam" else max(1, samples_of(decoding))


def search_in_batches(
    search: Callable[[np.ndarray, np.ndarray, np.ndarray, Prefixes], Hypotheses],
    decoding: Decoding,
    steps: int,
    source: np.ndarray,
    lengths: np.ndarray,
    seed: Seeds | None,
    prefixes: Prefixes = (),
) -> Hypotheses:
    """Search for replies to encoded utterances: [n, n_best, …].

    If they do not fit into one batch, utterances of similar lengths share one, which then takes fewer steps.

    Args:
        search: Searches a batch, given source, lengths, random numbers [batch, n, steps], and prefixes.
        decoding: The method, and how many hypotheses it needs.
        steps: Maximum length of a reply, including the end marker.
        source: Ids int32 [n, source steps].
        lengths: int32 [n].
        seed: The seed of sampling: one for each utterance, or one for all; None for a new one at every call.
        prefixes: What the replies start with.
    """
    samples, size = samples_of(decoding), max(1, MAX_ROWS // rows_of(decoding))
    order = np.argsort(lengths, kind="stable") if len(source) > size else np.arange(len(source))
    seeds = np.broadcast_to(secrets.randbits(31) if seed is None else seed, len(source))
    batches: list[Hypotheses] = []
    for start in range(0, max(1, len(source)), size):
        rows = order[start : start + size]
        uniform = uniform_numbers(seeds[rows], source[rows], samples, steps)
        starts = [prefixes[row] for row in rows] if prefixes else ()
        batches.append(search(source[rows], lengths[rows], uniform, starts))
    positions = np.argsort(order)
    return Hypotheses(*(np.concatenate(field)[positions] for field in zip(*batches, strict=True)))


def uniform_numbers(seeds: Seeds, source: np.ndarray, n: int, steps: int) -> npt.NDArray[np.float64]:
    """Return random numbers in [0, 1) for each utterance.

    seeds: one for each utterance, or one for all, source: ids int32 [batch, source steps] → float64 [batch, n, steps].
    """
    numbers = np.zeros([len(source), n, steps])
    for row, seed in enumerate(np.broadcast_to(seeds, len(source)).tolist() if n else ()):
        numbers[row] = np.random.default_rng([seed, *source[row].tolist()]).random([n, steps])
    return numbers


def random_seed(decoding: Decoding) -> int:
    """The seed of the settings, or a new one."""
    return secrets.randbits(31) if decoding.seed is None else decoding.seed
