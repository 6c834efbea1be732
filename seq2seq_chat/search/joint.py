"""Searches over one engine whose steps are computed together; each joins at the next step and leaves at its end."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.architecture.variables import MASK_VALUE
from seq2seq_chat.config import Decoding
from seq2seq_chat.search.batches import MAX_ROWS, ReplySearch, rows_of
from seq2seq_chat.search.engine import (
    NO_ENTRIES,
    Edits,
    Engine,
    Hypotheses,
    Rows,
    Sampling,
    State,
    StepOutput,
    StepRequest,
)
from seq2seq_chat.search.methods import Progress
from seq2seq_chat.text.vocabulary import EOS

OnHypotheses = Callable[[Callable[[], Hypotheses], Callable[[], Hypotheses]], bool]
"""Called after a step with what returns the hypotheses so far for an utterance, and all that are kept, [n, …] each;
whether to continue."""
OnEnd = Callable[["Hypotheses | Exception"], None]
"""Called with the result for an utterance, [n, …], or the error that ended the search."""


class Utterances(NamedTuple):
    """Utterances with the same settings, whose search is one."""

    search: ReplySearch
    source: npt.NDArray[np.int32]  # ids [n, source steps]
    lengths: npt.NDArray[np.int32]  # [n]
    seeds: Sequence[int]  # of sampling
    prefixes: Sequence[Sequence[int]]  # ids of the words that each reply starts with
    on_step: Sequence[OnHypotheses | None]
    on_end: Sequence[OnEnd]

    @property
    def rows(self) -> int:
        """The most hypotheses that their search extends at once."""
        return len(self.source) * rows_of(self.search.decoding)

    @property
    def is_watched(self) -> bool:
        """Whether somebody watches any of them."""
        return any(self.on_step)

    def each(self) -> list[Utterances]:
        """One :class:`Utterances` for each utterance."""
        rows = [slice(row, row + 1) for row in range(len(self.source))]
        return [self._replace(**{name: getattr(self, name)[row] for name in self._fields[1:]}) for row in rows]

    @classmethod
    def together(cls, parts: Sequence[Utterances]) -> Utterances:
        """All utterances of some parts with equal settings."""
        return Utterances(
            parts[0].search,
            np.concatenate([part.source for part in parts]),
            np.concatenate([part.lengths for part in parts]),
            [seed for part in parts for seed in part.seeds],
            [prefix for part in parts for prefix in part.prefixes],
            [function for part in parts for function in part.on_step],
            [function for part in parts for function in part.on_end],
        )


class _Running:
    """A search that waits for the output of its request; calls ``on_end`` of each utterance as soon as it has ended.

    If nobody watches any, it does so at the end.
    """

    def __init__(self, utterances: Utterances) -> None:
        self.utterances = utterances
        self.waiting = list(range(len(utterances.source)))  # utterances whose search has not ended
        self.first_row = 0  # of the state that the request continues
        source, seeds, prefixes = utterances.source, utterances.seeds, utterances.prefixes
        on_step = self._on_step if utterances.is_watched else None  # which takes time
        self._search = utterances.search.begin(source, seeds, on_step, prefixes if any(prefixes) else ())
        self.request = next(self._search)

    @property
    def rows(self) -> int:
        return len(self.request.words)

    def advance(self, output: StepOutput) -> bool:
        """Go on to the next request; whether there is one."""
        try:
            self.request = self._search.send(output)
        except StopIteration as end:
            self._end(self.waiting, end.value)
        except Exception as error:
            self.fail(error)
        return bool(self.waiting)

    def fail(self, error: Exception) -> None:
        """End the search for all utterances with an error."""
        for row in self.waiting:
            self.utterances.on_end[row](error)
        self.waiting = []

    def _on_step(self, progress: Progress) -> npt.NDArray[np.bool_]:
        so_far = functools.cache(progress.hypotheses)
        goes_on = progress.is_running.copy()
        watched = [(row, on_step) for row in np.flatnonzero(goes_on) if (on_step := self.utterances.on_step[row])]
        for row, on_step in watched:
            try:
                goes_on[row] = on_step(lambda row=row: so_far().at(row), lambda row=row: progress.kept().at(row))
            except Exception as error:
                goes_on[row] = False
                self.waiting.remove(row)
                self.utterances.on_end[row](error)
        if ended := [row for row in self.waiting if not goes_on[row]]:
            self._end(ended, progress.result())
        return goes_on

    def _end(self, rows: Sequence[int], result: Hypotheses) -> None:
        for row in rows:
            self.utterances.on_end[row](result.at(row))
        self.waiting = [row for row in self.waiting if row not in rows]


@dataclass
class _Group:
    """Searches whose requests differ only in what a step takes for each row."""

    running: list[_Running] = field(default_factory=list)
    state: State = None

    def join(self, running: _Running, state: State) -> None:
        """Add a search that continues rows of another state."""
        joined = state if self.state is None else join_states(self.state, state)  # first, as memory may not suffice
        running.first_row += _row_count(self.state)
        self.running.append(running)
        self.state = joined


class JointSearches:
    """Runs searches side by side, a step of all of them at a time.

    Args:
        engine: Computes the steps; its states are :class:`Rows`, or lists of them.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[bool, deque[Utterances]] = {True: deque(), False: deque()}  # by whether they are watched
        self._groups: dict[Hashable, _Group] = {}

    @property
    def _running(self) -> list[_Running]:
        return [running for group in self._groups.values() for running in group.running]

    def __len__(self) -> int:
        """The number of utterances whose search has not ended."""
        waiting = sum(len(one.source) for one in itertools.chain(*self._waiting.values()))
        return waiting + sum(len(one.waiting) for one in self._running)

    def __bool__(self) -> bool:
        return bool(self._groups) or any(self._waiting.values())

    def add(self, utterances: Utterances) -> None:
        """Start the search for some utterances, whose functions are called by :meth:`step`."""
        self._waiting[utterances.is_watched].extend([utterances] if utterances.rows <= MAX_ROWS else utterances.each())

    def step(self) -> None:
        """Compute one step of all searches; those that would not fit into memory wait until others have ended."""
        self._start_waiting()
        for kind, group in list(self._groups.items()):
            self._step(group)
            if not group.running:
                del self._groups[kind]

    def _start_waiting(self) -> None:
        """Start what waits, together, as far as there is room; what is watched has room of its own."""
        for is_watched, waiting in self._waiting.items():
            if not waiting:
                continue
            rows = sum(one.utterances.rows for one in self._running if one.utterances.is_watched == is_watched)
            started: dict[Decoding, list[Utterances]] = {}
            while waiting and (not rows or rows + waiting[0].rows <= MAX_ROWS):
                utterances = waiting.popleft()
                rows += utterances.rows
                started.setdefault(utterances.search.decoding, []).append(utterances)
            for parts in started.values():
                self._start(Utterances.together(parts))

    def _start(self, utterances: Utterances) -> None:
        try:
            state, running = self._engine.start(utterances.source, utterances.lengths), _Running(utterances)
            self._groups.setdefault(_kind(running.request), _Group()).join(running, state)
        except Exception as error:
            if len(utterances.source) == 1:
                utterances.on_end[0](error)
                return
            for one in utterances.each():
                self._start(one)

    def _step(self, group: _Group) -> None:
        """Compute a step of a group. If it fails, each search is computed alone, so that none fails for another.

        A search for several utterances is begun again for each.
        """
        try:
            output, group.state = self._engine.step(group.state, _joint_request(group.running))
        except Exception as error:
            if len(group.running) == 1:
                (running,), group.running, group.state = group.running, [], None
                if len(running.waiting) == 1:
                    running.fail(error)
                    return
                each = running.utterances.each()
                for row in running.waiting:
                    self._start(each[row])
                return
            parts = [_Group([running], group.state) for running in group.running]
            group.running, group.state = [], None
            for part in parts:
                self._step(part)
                for running in part.running:
                    group.join(running, part.state)
            return
        following, first = [], 0
        for running in group.running:
            rows = slice(first, first + running.rows)
            if running.advance(output if len(group.running) == 1 else _part(output, rows, running.request)):
                running.first_row = first
                following.append(running)
            first = rows.stop
        group.running = following


def _kind(request: StepRequest) -> Hashable:
    """What the requests of searches must have in common to be one; a search does not change it."""
    distribution = None if request.sampling is None else request.sampling.distribution
    return request.edits.penalty, distribution


def _joint_request(running: Sequence[_Running]) -> StepRequest:
    """The requests of some searches as one."""
    requests = [each.request for each in running]
    if len(running) == 1 and not running[0].first_row:
        return requests[0]
    everywhere = set.intersection(*map(set, {request.edits.banned for request in requests}))
    forbidden, penalized, start = [NO_ENTRIES], [NO_ENTRIES], 0
    for request in requests:
        edits, end = request.edits, start + len(request.words)
        for entries, shifted in ((edits.forbidden, forbidden), (edits.penalized, penalized)):
            if len(entries):
                shifted.append(entries + np.array([start, 0], np.int32))
        if words := [word for word in edits.banned if word not in everywhere]:
            forbidden.append(np.array([(row, word) for row in range(start, end) for word in words], np.int32))
        start = end
    first = requests[0]
    banned_everywhere = tuple(word for word in first.edits.banned if word in everywhere)
    sampling = None
    if first.sampling is not None:
        numbers = [request.sampling.uniform for request in requests if request.sampling is not None]
        sampling = Sampling(np.concatenate(numbers), first.sampling.distribution)
    forced = None
    if any(request.forced is not None for request in requests):  # those that force none look up any word
        forced = np.concatenate(
            [np.full_like(one.words, EOS) if one.forced is None else one.forced for one in requests]
        )
    return StepRequest(
        np.concatenate([request.words for request in requests]),
        np.concatenate([each.request.parents + each.first_row for each in running]).astype(np.int32),
        Edits(banned_everywhere, np.concatenate(forbidden), np.concatenate(penalized), first.edits.penalty),
        max(request.k for request in requests),
        sampling,
        forced,
    )


def _part(output: StepOutput, rows: slice, request: StepRequest) -> StepOutput:
    """What a joint output has for the rows of one request."""
    k = 1 if request.sampling is not None else request.k
    forced = None if request.forced is None or output.forced is None else output.forced[rows]
    return StepOutput(output.words[rows, :k], output.log_probabilities[rows, :k], output.attention[rows], forced)


def _row_count(state: State) -> int:
    """Rows of a state; 0 for None."""
    if state is None:
        return 0
    return len(state.utterances) if isinstance(state, Rows) else _row_count(state[0])


def join_states(one: State, two: State) -> State:
    """Join the rows of two states; shorter sources are padded."""
    if not isinstance(one, Rows):
        return [join_states(*parts) for parts in zip(one, two, strict=True)]
    utterances = np.unique(one.utterances, return_inverse=True)[1].astype(np.int32)
    return Rows(
        [_join_arrays(*parts) for parts in zip(one.state, two.state, strict=True)],
        [_join_arrays(*parts) for parts in zip(one.memory, two.memory, strict=True)],
        np.concatenate([utterances, two.utterances + len(utterances)]).astype(np.int32),
    )


def _join_arrays(one: npt.ArrayLike, two: npt.ArrayLike) -> np.ndarray:
    """[n, …] and [m, …] → [n + m, …]. The only arrays of two axes that differ in the second are masks of sources."""
    arrays = [np.asarray(one), np.asarray(two)]
    if arrays[0].shape[1:] == arrays[1].shape[1:]:
        return np.concatenate(arrays)
    sizes = np.max([array.shape for array in arrays], axis=0)
    padding = [[(0, int(size - own)) for size, own in zip(sizes, array.shape, strict=True)] for array in arrays]
    fill = MASK_VALUE if arrays[0].ndim == 2 else 0
    return np.concatenate(
        [np.pad(array, [(0, 0), *axes[1:]], constant_values=fill) for array, axes in zip(arrays, padding, strict=True)]
    )
