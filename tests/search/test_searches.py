"""Greedy, beam and sampling search over tables of probabilities, against brute force; no network is involved."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.config import Decoding
from seq2seq_chat.search import batches
from seq2seq_chat.search.batches import ReplySearch, uniform_numbers
from seq2seq_chat.search.engine import ALL_PROBABILITY, ALL_WORDS, NEG_INF, Hypotheses, StepRequest, WordDistribution
from seq2seq_chat.search.logit_rules import (
    choose_words,
    combined_edits,
    log_normalizer,
    logit_rules,
    sample_words,
    truncated_softmax,
)
from seq2seq_chat.text.vocabulary import EOS, GO, PAD, UNKNOWN
from tests.search.table_model import LastWordModel, TableModel, sequences
from tests.search.table_model import settings as decoding


def words_of(sequence: Sequence[int]) -> list[int]:
    return [word for word in sequence if word != EOS]


def check_consistent(model: TableModel, hypotheses: Hypotheses) -> None:
    """Sorted scores are those of the words; nothing follows EOS; no duplicates; attention follows the hypothesis."""
    for row in range(model.rows):
        found = sequences(hypotheses, row)
        assert len(set(found)) == len(found)
        assert list(hypotheses.scores[row]) == sorted(hypotheses.scores[row], reverse=True)
        for n, sequence in enumerate(found):
            assert hypotheses.scores[row, n] == pytest.approx(model.score(row, sequence), abs=1e-4)
            assert EOS not in sequence[:-1]
            assert hypotheses.ended[row, n] == (sequence[-1] == EOS)
            assert hypotheses.ended[row, n] or len(sequence) == model.steps
            assert not np.any(hypotheses.words[row, n, len(sequence) :] != PAD)
            assert not np.any(hypotheses.attention[row, n, len(sequence) :])
            history = 1
            for t, word in enumerate(sequence):
                assert tuple(hypotheses.attention[row, n, t]) == (history, row)
                history = history * model.words + word


@settings(max_examples=25, deadline=None)
@given(words=st.integers(4, 7), steps=st.integers(1, 4), seed=st.integers(0, 10**6), width=st.integers(1, 6))
def test_narrow_beams_are_consistent_and_independent_of_the_batch(
    words: int, steps: int, seed: int, width: int
) -> None:
    seeds = [seed, seed + 1, seed + 2]
    together = TableModel(words, steps, seeds)
    hypotheses = together.search(decoding(beam_width=width))
    check_consistent(together, hypotheses)
    alone = TableModel(words, steps, [seeds[seed % 3]]).search(decoding(beam_width=width))
    np.testing.assert_array_equal(alone.words[0], hypotheses.words[seed % 3])
    np.testing.assert_allclose(alone.scores[0], hypotheses.scores[seed % 3], atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(words=st.integers(4, 7), steps=st.integers(1, 4), seed=st.integers(0, 10**6), width=st.integers(2, 6))
def test_a_beam_of_one_is_greedy_and_stopping_early_keeps_the_best(
    words: int, steps: int, seed: int, width: int
) -> None:
    model = TableModel(words, steps, [seed, seed + 1])
    greedy = model.search(decoding())
    check_consistent(model, greedy)
    for one, other in zip(greedy, model.search(decoding(beam_width=1)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    best, full = model.search(decoding(beam_width=width, n_best=1)), model.search(decoding(beam_width=width))
    np.testing.assert_array_equal(best.words[:, 0], full.words[:, 0])


@settings(max_examples=20, deadline=None)
@given(words=st.integers(5, 8), steps=st.integers(1, 4), seed=st.integers(0, 10**6), penalty=st.floats(0.1, 3))
def test_length_penalty(words: int, steps: int, seed: int, penalty: float) -> None:
    """Against a plain beam search that lists all continuations of all hypotheses."""
    model, width = TableModel(words, steps, [seed]), 3

    def rank(sequence: tuple[int, ...]) -> float:
        return model.score(0, sequence) / ((5 + len(words_of(sequence))) / 6) ** penalty

    beam: list[tuple[int, ...]] = [()]
    for _ in range(steps):
        ended = [sequence for sequence in beam if sequence[-1:] == (EOS,)]
        running = [sequence for sequence in beam if sequence[-1:] != (EOS,)]
        longer = [(*sequence, word) for sequence in running for word in range(words) if word not in (PAD, GO)]
        beam = sorted(ended + longer, key=rank, reverse=True)[:width]
    hypotheses = model.search(decoding(beam_width=width, length_penalty=penalty))
    assert sequences(hypotheses, 0) == beam
    np.testing.assert_allclose(hypotheses.ranks[0, : len(beam)], list(map(rank, beam)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_length_penalty_ranks_all_words_of_a_step(width: int) -> None:
    """The end marker, which is no word of the length, may rank lower than less probable words, which must be known."""
    model = TableModel(9, 1, range(100))
    hypotheses = model.search(decoding(beam_width=width, length_penalty=1.5))
    for row in range(model.rows):
        ranks = {one: model.score(row, one) / ((5 + len(words_of(one))) / 6) ** 1.5 for one in model.all_sequences()}
        assert sequences(hypotheses, row) == sorted(ranks, key=lambda one: -ranks[one])[:width]


@settings(max_examples=40, deadline=None)
@given(words=st.integers(5, 8), steps=st.integers(1, 5), seed=st.integers(0, 10**6), width=st.integers(1, 5))
def test_a_search_that_stops_at_the_first_end(words: int, steps: int, seed: int, width: int) -> None:
    """Against a plain beam search that lists all continuations, each utterance alone: it may return unfinished ones."""
    model = TableModel(words, steps, [seed, seed + 1, seed + 2])
    hypotheses = model.search(decoding(beam_width=width, stop="first_end"))
    for row in range(model.rows):
        beam: list[tuple[int, ...]] = [()]
        while len(beam[0]) < steps and not any(sequence[-1:] == (EOS,) for sequence in beam):
            longer = [(*sequence, word) for sequence in beam for word in range(words) if word not in (PAD, GO)]
            beam = sorted(longer, key=lambda sequence: model.score(row, sequence), reverse=True)[:width]
        assert sequences(hypotheses, row) == beam
        assert hypotheses.ended[row, : len(beam)].tolist() == [sequence[-1] == EOS for sequence in beam]


def test_a_longer_hypothesis_can_overtake_one_that_has_ended() -> None:
    """The best of 511 sequences of up to 8 words, in 60 models whose next word depends on the last one."""
    rows, words, steps, penalty = 60, 5, 8, 1.0
    logits = 2 * np.random.default_rng(1).normal(size=[rows, words, words]).astype(np.float32)
    table = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    live = [word for word in range(words) if word not in (PAD, GO, EOS)]
    everything = [(*s, EOS) for n in range(steps) for s in itertools.product(live, repeat=n)]
    everything += itertools.product(live, repeat=steps)

    def best_rank(width: int, n_best: int) -> np.ndarray:
        settings = decoding(beam_width=width, n_best=n_best, length_penalty=penalty)
        search = ReplySearch(LastWordModel(logits), settings, steps, source_steps=0)
        return np.asarray(search(np.arange(rows, dtype=np.int32)[:, None], np.ones(rows, np.int32)).ranks[:, 0])

    ranks = np.array(
        [table[:, (GO, *s[:-1]), s].sum(axis=1) / ((5 + len(words_of(s))) / 6) ** penalty for s in everything]
    )
    np.testing.assert_allclose(best_rank(len(everything), 1), ranks.max(axis=0), rtol=1e-4)
    np.testing.assert_array_equal(best_rank(4, 1), best_rank(4, 4))


@settings(max_examples=15, deadline=None)
@given(
    words=st.integers(4, 6),
    steps=st.integers(2, 4),
    seed=st.integers(0, 10**6),
    n=st.integers(0, 3),
    min_length=st.integers(0, 4),
    allow_unknown=st.booleans(),
)
def test_forbidding_rules(words: int, steps: int, seed: int, n: int, min_length: int, allow_unknown: bool) -> None:
    """A beam as wide as the search space finds all sequences that the rules allow, with the scores of their words."""
    model = TableModel(words, steps, [seed, seed + 1])

    def is_allowed(sequence: tuple[int, ...]) -> bool:
        plain = words_of(sequence)
        ngrams = Counter(tuple(plain[i : i + n]) for i in range(len(plain) - n + 1)) if n else Counter()
        return (
            max(ngrams.values(), default=1) == 1
            and (sequence[-1] != EOS or len(plain) >= min_length)
            and (allow_unknown or UNKNOWN not in sequence)
        )

    everything = model.all_sequences()
    allowed = list(filter(is_allowed, everything))
    rules = {"no_repeat_ngram_size": n, "min_length": min_length, "allow_unknown": allow_unknown}
    hypotheses = model.search(decoding(beam_width=len(everything), **rules))
    check_consistent(model, hypotheses)
    for row in range(2):
        assert set(sequences(hypotheses, row)) == set(allowed)
        expected = sorted((model.score(row, sequence) for sequence in allowed), reverse=True)
        np.testing.assert_allclose(hypotheses.scores[row, : len(expected)], expected, atol=1e-4)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n_best", [1, 3, 6])
@pytest.mark.parametrize(("words", "steps"), [(5, 4), (8, 3)])
def test_diverse_beam_search(words: int, steps: int, n_best: int, seed: int) -> None:
    """Against the paper's algorithm: group by group, penalizing words that previous groups have chosen."""
    model, size, groups, diversity = TableModel(words, steps, [seed]), 2, 3, 1.5
    beams: list[list[tuple[int, ...]]] = [[()] for _ in range(groups)]
    for _ in range(steps):
        chosen: Counter[int] = Counter()
        for group in range(groups):
            candidates = []
            for sequence in beams[group]:
                if sequence[-1:] == (EOS,):
                    candidates.append((sequence, model.score(0, sequence), None))
                    continue
                for word in (word for word in range(words) if word not in (PAD, GO)):
                    longer = (*sequence, word)
                    candidates.append((longer, model.score(0, longer) - diversity * chosen[word], word))
            candidates.sort(key=lambda candidate: -candidate[1])
            beams[group] = [sequence for sequence, _, _ in candidates[:size]]
            chosen.update(word for _, _, word in candidates[:size] if word is not None)
    expected = sorted({sequence for beam in beams for sequence in beam}, key=lambda s: -model.score(0, s))
    options = {"beam_width": size * groups, "beam_groups": groups, "diversity_penalty": diversity}
    hypotheses = model.search(decoding(**options, n_best=n_best))
    expected = expected[:n_best]
    assert sequences(hypotheses, 0) == expected
    np.testing.assert_allclose(hypotheses.scores[0, : len(expected)], [model.score(0, s) for s in expected], atol=1e-4)


def test_edits_are_those_of_the_settings() -> None:
    """After 5 6 5: no end before four words, no pair of words twice, and words of the history are less probable."""
    rules = logit_rules(decoding(min_length=4, no_repeat_ngram_size=2, repetition_penalty=3.0))
    edits = combined_edits(rules, np.array([[5, 6, 5]], np.int32))
    logits = np.array([[1.0, 1.5, 1.5, 1.5, 1.5, 1.5, -1.5, 1.0]], np.float32)
    request = StepRequest(np.array([5]), np.array([0]), edits, k=8)
    output = choose_words(logits.copy(), log_normalizer(logits), np.zeros([1, 0]), request)
    penalized = np.array([1.0, 1.5, 1.5, 1.5, 1.5, 0.5, -4.5, 1.0])  # 5 and 6: 1.5 / 3 and -1.5 · 3
    expected = penalized - np.log(np.exp(penalized).sum())
    assert output.words[0, :4].tolist() == [3, 4, 7, 5]
    np.testing.assert_allclose(output.log_probabilities[0, :4], expected[[3, 4, 7, 5]], rtol=1e-6)
    assert np.all(output.log_probabilities[0, 4:] == NEG_INF)  # <pad>, <go>, <eos>, and 6 after 5
    assert [rule.setting for rule in logit_rules(Decoding())] == ["allow_unknown"]


@settings(max_examples=15, deadline=None)
@given(words=st.integers(5, 7), steps=st.integers(2, 4), seed=st.integers(0, 10**6), length=st.integers(0, 2))
def test_with_a_prefix_the_best_are_the_best_of_those_that_start_with_it(
    words: int, steps: int, seed: int, length: int
) -> None:
    model = TableModel(words, steps, [seed])
    prefix = tuple(np.random.default_rng(seed).integers(3, words, length).tolist())
    allowed = [sequence for sequence in model.all_sequences() if sequence[: len(prefix)] == prefix]
    *_, last = model.watch(decoding(beam_width=len(allowed), min_length=0), prefix)
    assert [node.words for node in last.beam] == sorted(allowed, key=lambda one: -model.score(0, one))


@pytest.mark.parametrize("seeds", [7, np.arange(40, 49)], ids=["one seed", "seeds"])
@pytest.mark.parametrize("options", [{}, {"method": "sample", "n_best": 3}, {"beam_width": 3}], ids=str)
def test_an_utterance_gets_the_same_alone_and_in_any_batch_and_order(
    options: dict[str, Any], seeds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are sorted by length."""
    model, lengths = TableModel(6, 3, [1, 2, 3]), np.array([5, 2, 9, 9, 1, 7, 2, 4, 3], np.int32)
    source = np.stack([np.arange(9) % 3, np.arange(9)], axis=1).astype(np.int32)
    search = ReplySearch(model, decoding(**options), model.steps, source_steps=2)
    alone = [
        search(source[row : row + 1], lengths[row : row + 1], int(seed))
        for row, seed in enumerate(np.broadcast_to(seeds, 9))
    ]
    expected = [np.concatenate(field) for field in zip(*alone, strict=True)]
    for size in (2, 4, 9):
        monkeypatch.setattr(batches, "MAX_ROWS", size * (3 if options else 1))
        found = search(source, lengths, seeds)
        for name, one, other in zip(Hypotheses._fields, found, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [9]),
        ({"beam_width": 3}, [4, 4, 1]),
        ({"method": "sample", "n_best": 2}, [6, 3]),
        ({"beam_width": 40}, [1] * 9),
        ({"beam_width": 40}, [1]),
    ],
    ids=str,
)
def test_batches_have_as_many_hypotheses_as_fit(
    options: dict[str, Any], sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least one utterance each."""
    monkeypatch.setattr(batches, "MAX_ROWS", 12)
    model, started = TableModel(6, 2, range(sum(sizes))), []

    def start(source: np.ndarray, lengths: np.ndarray) -> Any:
        started.append(len(source))
        return TableModel.start(model, source, lengths)

    monkeypatch.setattr(model, "start", start)
    model.search(decoding(**options))
    assert started == sizes


# sampling


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """The statistic minus its expectation, in standard deviations; words of probability 0 must not occur."""
    assert not np.any(counts[probabilities == 0])
    expected = probabilities[probabilities > 0] * counts.sum()
    statistic = np.sum((counts[probabilities > 0] - expected) ** 2 / expected)
    degrees = len(expected) - 1  # of freedom
    assert degrees
    return float((statistic - degrees) / math.sqrt(2 * degrees))


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, None, None), (0.5, None, None), (2.0, 4, None), (1.0, None, 0.8), (1.0, 5, 0.9)],
)
def test_sampled_words_follow_the_distribution(temperature: float, top_k: Any, top_p: Any) -> None:
    samples, size = 20_000, 12
    logits = np.random.default_rng(3).normal(size=size)
    p = np.exp(logits / temperature) / np.exp(logits / temperature).sum()
    kept = sorted(range(size), key=lambda word: -p[word])[: top_k or size]
    if top_p is not None:
        renormalized = p[kept] / p[kept].sum()
        kept = [word for rank, word in enumerate(kept) if renormalized[:rank].sum() < top_p]
    expected = np.where(np.isin(np.arange(size), kept), p, 0)
    expected /= expected.sum()
    distribution = WordDistribution.of_settings(
        decoding(method="sample", temperature=temperature, top_k=top_k, top_p=top_p)
    )
    found = truncated_softmax(logits[np.newaxis].astype(np.float32), distribution)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-8)
    assert set(np.flatnonzero(found[0])) == set(kept)
    uniform = uniform_numbers(7, np.zeros([1, 3], np.int32), samples, 1).reshape(-1)
    words = sample_words(np.repeat(found, samples, axis=0), uniform)
    assert chi_square(np.bincount(words, minlength=size), expected) < 4


@given(seed=st.integers(0, 10**6), k=st.integers(1, 8), ties=st.booleans())
def test_top_k_and_top_p_keep_the_most_probable_words(seed: int, k: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    logits = (rng.integers(0, 3, 8) if ties else rng.normal(size=8)).astype(np.float32)
    order = sorted(range(8), key=lambda word: (-logits[word], word))
    kept = truncated_softmax(logits[np.newaxis], WordDistribution(1.0, k, ALL_PROBABILITY))[0]
    assert set(np.flatnonzero(kept)) == set(order[:k])
    p = np.exp(logits.astype(np.float64))
    sums = np.cumsum(p[order] / p.sum())
    limit = float(rng.uniform(0.05, 0.99))
    if np.min(np.abs(sums - limit)) > 1e-5:  # otherwise rounding would decide
        kept = truncated_softmax(logits[np.newaxis], WordDistribution(1.0, ALL_WORDS, limit))[0]
        assert set(np.flatnonzero(kept)) == set(order[: int(np.searchsorted(sums, limit)) + 1])


def test_sampled_replies_follow_the_distribution_and_the_first_is_a_fair_one() -> None:
    """Five samples for each of 4,000 utterances: the most probable of five would be a likely reply too often."""
    model = TableModel(5, 2, [11])
    model.logits[:, :, [PAD, GO]] = NEG_INF
    model.log_probabilities = model.logits - np.log(np.exp(model.logits).sum(axis=2, keepdims=True))
    everything = model.all_sequences()
    probabilities = np.exp([model.score(0, sequence) for sequence in everything])
    np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-5)
    rows, n = 4_000, 5
    search = ReplySearch(model, decoding(method="sample", n_best=n), 2, source_steps=2)
    found = search(np.zeros([rows, 1], np.int32), np.ones(rows, np.int32), seed=np.arange(rows))
    sampled = [sequences(found, row) for row in range(rows)]
    for chosen in ([one for row in sampled for one in row], [row[0] for row in sampled]):
        counts = Counter(chosen)
        assert chi_square(np.array([counts[sequence] for sequence in everything]), probabilities) < 4
    for row in range(0, rows, 97):
        assert found.scores[row, 0] == pytest.approx(model.score(0, sampled[row][0]), abs=1e-4)


def test_random_numbers_depend_on_seed_and_utterance() -> None:
    source = np.random.default_rng(0).integers(4, 30, [5, 7]).astype(np.int32)
    together = uniform_numbers(3, source, 2, 6)
    for row in range(5):
        np.testing.assert_array_equal(together[row], uniform_numbers(3, source[row : row + 1], 2, 6)[0])
    assert np.any(together != uniform_numbers(4, source, 2, 6))
    assert np.any(together[0] != together[1])
    assert ((together >= 0) & (together < 1)).all()


def test_the_lowest_temperature_samples_the_most_probable_word() -> None:
    logits = np.array([[-50.0, 80.0, 79.0, NEG_INF]], np.float32)
    distribution = WordDistribution.of_settings(decoding(method="sample", temperature=1e-38))
    np.testing.assert_array_equal(truncated_softmax(logits, distribution), [[0.0, 1.0, 0.0, 0.0]])


def test_a_row_without_any_word_gets_one_that_exists() -> None:
    assert sample_words(np.full([2, 5], np.nan, np.float32), np.array([0.0, 0.7])).tolist() == [4, 4]
