"""Searches whose steps are computed together find what each of them finds alone, in as many steps as the longest."""

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.config import Decoding
from seq2seq_chat.search import joint
from seq2seq_chat.search.batches import ReplySearch
from seq2seq_chat.search.engine import NEG_INF, Hypotheses, Rows, StepOutput, StepRequest
from seq2seq_chat.search.joint import JointSearches, OnHypotheses, Utterances, join_states
from seq2seq_chat.search.methods import certain_words
from tests.search.table_model import TableModel, settings

SETTINGS = [
    settings(),
    settings(beam_width=4, no_repeat_ngram_size=1),
    settings(min_length=3),
    settings(beam_width=3, min_length=2, repetition_penalty=1.5),
    settings(method="sample", n_best=3),
    settings(method="sample", temperature=0.5, top_k=3, min_length=2),
    settings(beam_width=6, beam_groups=3, diversity_penalty=0.5, n_best=2),
]
STEPS = 4
PREFIXES = [[]] * 6 + [[4], [], [5, 3]]  # by the number of the utterance


class CountedModel(TableModel):
    """Counts steps and starts; a step in which the utterance ``poison`` takes part fails."""

    calls, started, poison = 0, 0, -1

    def start(self, source: np.ndarray, lengths: np.ndarray) -> Rows:
        self.started += len(source)
        return super().start(source, lengths)

    def step(self, rows: Rows, request: StepRequest) -> tuple[StepOutput, Rows]:
        self.calls += 1
        if self.poison in rows.memory[0][request.parents]:
            raise ValueError("poison")
        return super().step(rows, request)


def add(
    searches: JointSearches,
    model: TableModel,
    utterances: Sequence[int],
    decoding: Decoding,
    results: dict[int, Any],
    watchers: Mapping[int, OnHypotheses] = MappingProxyType({}),
) -> None:
    """Start one search for some utterances, whose seeds are their numbers."""
    source, lengths = np.array(utterances, np.int32)[:, np.newaxis], np.ones(len(utterances), np.int32)
    on_step = [watchers.get(number, None if number % 5 == 4 else lambda *_: True) for number in utterances]
    prefixes = [PREFIXES[number % len(PREFIXES)] for number in utterances]
    on_end = [functools.partial(results.__setitem__, number) for number in utterances]
    search = ReplySearch(model, decoding, STEPS, source_steps=2)
    searches.add(Utterances(search, source, lengths, list(utterances), prefixes, on_step, on_end))


def alone(model: TableModel, utterance: int, decoding: Decoding) -> Hypotheses:
    search = ReplySearch(model, decoding, STEPS, source_steps=2)
    prefix = PREFIXES[utterance % len(PREFIXES)]
    return search(np.array([[utterance]], np.int32), np.ones(1, np.int32), [utterance], [prefix]).at(0)


def assert_equal(found: Any, expected: Sequence[np.ndarray]) -> None:
    assert isinstance(found, Hypotheses), found
    for field, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(field, other)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("max_rows", [5, 640])
def test_a_search_finds_what_it_finds_alone(seed: int, max_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of all kinds, for one to three utterances, that join at random steps, while others leave or wait."""
    monkeypatch.setattr(joint, "MAX_ROWS", max_rows)
    random, model, results = np.random.default_rng(seed), TableModel(6, STEPS, range(20)), dict[int, Any]()
    searches = JointSearches(model)
    chosen, first = [SETTINGS[kind] for kind in random.integers(len(SETTINGS), size=20)], 0
    while first < 20:
        together = range(first, min(20, first + random.integers(1, 4)))
        for utterance in together:
            chosen[utterance] = chosen[first]
        add(searches, model, together, chosen[first], results)
        first = together.stop
        for _ in range(random.integers(3)):
            searches.step()
    while searches:
        searches.step()
    for utterance, decoding in enumerate(chosen):
        assert_equal(results[utterance], alone(model, utterance, decoding))


@pytest.mark.parametrize("decoding", SETTINGS, ids=str)
def test_certain_words_start_what_is_found(decoding: Decoding) -> None:
    model, results, certain = TableModel(6, STEPS, range(12)), dict[int, Any](), dict[int, list[np.ndarray]]()

    def watch(utterance: int, _: Any, kept: Callable[[], Hypotheses]) -> bool:
        certain.setdefault(utterance, []).append(certain_words(kept()))
        return True

    searches = JointSearches(model)
    add(searches, model, range(12), decoding, results, {n: functools.partial(watch, n) for n in range(12)})
    while searches:
        searches.step()
    for utterance, found in results.items():
        for words in certain.get(utterance, []):
            assert (found.words[found.scores > NEG_INF, : len(words)] == words).all()
    assert any(len(words) for steps in certain.values() for words in steps[:-1])


@pytest.mark.parametrize(("widths", "started"), [([1, 5], 2), ([1, 6], 1), ([6, 1], 1), ([2, 2, 3], 2), ([7, 1], 1)])
def test_as_many_searches_start_as_fit(widths: Sequence[int], started: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rows that they may need, up to six here, or one search that needs more."""
    monkeypatch.setattr(joint, "MAX_ROWS", 6)
    model = CountedModel(6, STEPS, range(len(widths)))
    searches = JointSearches(model)
    for utterance, width in enumerate(widths):
        add(searches, model, [utterance], settings(beam_width=width), {})
    searches.step()
    assert model.started == started


def test_a_search_that_does_not_fit_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four utterances that need two rows each, three start, and all of three."""
    monkeypatch.setattr(joint, "MAX_ROWS", 6)
    for count in (3, 4):
        model = CountedModel(6, STEPS, range(4))
        searches = JointSearches(model)
        add(searches, model, range(count), settings(beam_width=2), {})
        searches.step()
        assert (model.started, len(searches)) == (3, count)


def test_fifty_searches_take_as_many_steps_as_the_longest() -> None:
    model, results = CountedModel(6, STEPS, range(50)), dict[int, Any]()
    for utterance in range(50):
        alone(model, utterance, settings(min_length=utterance % 3))
    one_by_one, model.calls = model.calls, 0
    searches = JointSearches(model)
    for utterance in range(50):
        add(searches, model, [utterance], settings(min_length=utterance % 3), results)
    while searches:
        searches.step()
    assert len(results) == 50
    assert model.calls <= STEPS < one_by_one / 25


@pytest.mark.parametrize("together", [[[0], [1]], [[0, 1]]], ids=str)
@pytest.mark.parametrize("decoding", [settings(min_length=3), settings(beam_width=3, min_length=3)], ids=str)
def test_what_nobody_reads_leaves_at_the_next_step(together: Sequence[Sequence[int]], decoding: Decoding) -> None:
    model, results = TableModel(6, STEPS, range(2)), dict[int, Any]()
    searches = JointSearches(model)
    for utterances in together:
        add(searches, model, utterances, decoding, results, {0: lambda *_: False})
    searches.step()
    assert (list(results), results[0].lengths.max(), len(searches)) == ([0], 1, 1)
    while searches:
        searches.step()
    assert_equal(results[1], alone(model, 1, decoding))


@pytest.mark.parametrize("together", [[[0], [1], [2], [3]], [[0, 1, 2, 3]], [[0, 3], [1, 2]]], ids=str)
@pytest.mark.parametrize(
    "decoding", [settings(beam_width=3, min_length=3), settings(min_length=3)], ids=["beam", "greedy"]
)
def test_an_error_ends_only_the_search_that_causes_it(together: Sequence[Sequence[int]], decoding: Decoding) -> None:
    model, results = CountedModel(6, STEPS, range(4)), dict[int, Any]()

    def fail(*_: Any) -> bool:
        raise ValueError("watcher")

    searches = JointSearches(model)
    for utterances in together:
        add(searches, model, utterances, decoding, results, {3: fail})
    searches.step()
    searches.step()
    model.poison = 1
    while searches:
        searches.step()
    assert [str(results[utterance]) for utterance in (1, 3)] == ["poison", "watcher"]
    model.poison = -1
    for utterance in (0, 2):
        assert_equal(results[utterance], alone(model, utterance, decoding))


def test_a_search_whose_state_cannot_be_joined_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(one: Rows, two: Rows) -> Rows:
        raise MemoryError

    model, results, decoding = TableModel(6, STEPS, range(2)), dict[int, Any](), settings(min_length=3)
    searches = JointSearches(model)
    add(searches, model, [0], decoding, results)
    searches.step()
    monkeypatch.setattr(joint, "join_states", fail)
    add(searches, model, [1], decoding, results)
    while searches:
        searches.step()
    assert isinstance(results[1], MemoryError)
    assert_equal(results[0], alone(model, 0, decoding))


def test_shorter_sources_are_padded_where_states_are_joined() -> None:
    def rows(n: int, steps: int) -> Rows:
        memory = [np.ones([n, steps, 2], np.float32), np.zeros([n, steps], np.float32)]
        return Rows([np.full([n, 3], n)], memory, np.arange(n, dtype=np.int32))

    joined = join_states([rows(2, 3)], [rows(1, 5)])[0]
    assert joined.state[0].tolist() == [[2] * 3] * 2 + [[1] * 3]
    assert joined.memory[0][:, :, 0].tolist() == [[1, 1, 1, 0, 0]] * 2 + [[1] * 5]
    assert np.exp(joined.memory[1]).tolist() == joined.memory[0][:, :, 0].tolist()  # the mask leaves out padding
    assert joined.utterances.tolist() == [0, 1, 2]
