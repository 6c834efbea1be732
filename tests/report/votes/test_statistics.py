"""Statistics of votes: compared with closed forms, hand-written iterations, and simulations."""

import itertools
import math
from collections.abc import Sequence
from typing import get_args

import numpy as np
import pytest

from seq2seq_chat.report.votes.evaluation import Choice, System, Vote
from seq2seq_chat.report.votes.statistics import (
    JudgeAgreement,
    agreement,
    missing_votes,
    pair_results,
    proportion,
    strengths,
    vote_statistics,
)

A, B, C = (System(name, 10, "greedy") for name in "abc")


def vote(left: System, right: System, choice: Choice, prompt: str = "hello", judge: str = "anna") -> Vote:
    shown = {"left": left, "right": right, "left_reply": "yes", "right_reply": "no"}
    return Vote(time="2026-05-04 17:03:22", judge=judge, item=0, prompt=prompt, choice=choice, **shown)  # type: ignore[arg-type]


def test_votes_are_counted_by_system_whatever_the_side() -> None:
    choices: list[tuple[System, System, Choice]] = [
        *((A, B, "left"), (B, A, "right"), (B, A, "left"), (A, B, "both_good")),
        *((B, A, "both_bad"), (B, A, "both_bad"), (C, A, "left")),
    ]
    first, second = pair_results([vote(*choice, prompt=str(n)) for n, choice in enumerate(choices)])
    counts = [(p.first.run, p.second.run, p.wins, p.losses, p.both_good, p.both_bad) for p in (first, second)]
    assert counts == [("a", "b", 2, 1, 1, 2), ("a", "c", 0, 1, 0, 0)]
    assert vote_statistics([vote(*choice) for choice in choices]).left == proportion(3, 4)


@pytest.mark.parametrize(("k", "n"), [(0, 1), (3, 3), (7, 20), (50, 100), (999, 1000)])
def test_interval_of_wilson(k: int, n: int) -> None:
    z, p = 1.959963984540054, k / n
    center = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    result = proportion(k, n)
    assert result is not None
    assert result.interval == pytest.approx([max(0, center - half), min(1, center + half)], abs=1e-9)
    outcomes = [math.comb(n, i) / 2**n for i in range(n + 1)]
    assert result.p_value == pytest.approx(sum(o for o in outcomes if o <= outcomes[k] * (1 + 1e-7)))
    assert proportion(0, 0) is None


def bradley_terry(wins: np.ndarray) -> np.ndarray:
    """Log-strengths by the iteration of Hunter 2004, centered."""
    gamma = np.ones(len(wins))
    for _ in range(20_000):
        games = wins + wins.T
        weights = games / (gamma[:, None] + gamma[None, :])
        gamma = wins.sum(axis=1) / weights.sum(axis=1)
        gamma /= gamma.sum()
    return np.log(gamma) - np.log(gamma).mean()


def test_strengths_equal_those_of_another_algorithm() -> None:
    votes = []
    for first, second, wins, losses, ties in ((A, B, 9, 4, 3), (A, C, 6, 6, 1), (B, C, 2, 11, 0)):
        choices: list[Choice] = ["left"] * wins + ["right"] * losses + ["both_bad"] * ties
        votes += [vote(first, second, choice, str(n)) for n, choice in enumerate(choices)]
    prior = 0.5
    wins_of = np.array([[0, 9 + 1.5, 6 + 0.5], [4 + 1.5, 0, 2], [6 + 0.5, 11, 0]]) + prior * (1 - np.eye(3))
    expected = dict(zip("abc", bradley_terry(wins_of), strict=True))
    result = strengths(votes)
    assert {one.system.run: one.value for one in result} == pytest.approx(expected, abs=1e-6)
    assert [one.system.run for one in result] == sorted(expected, key=lambda system: -expected[system])
    for one in result:
        assert one.interval[0] < one.value < one.interval[1]


def test_strengths_are_finite_if_a_system_always_wins() -> None:
    votes = [vote(A, other, "left", str(n)) for n in range(300) for other in (B, C)]
    best, *others = strengths(votes)
    assert best.system.run == "a"
    assert all(math.isfinite(bound) for one in (best, *others) for bound in (one.value, *one.interval))
    assert strengths([]) == []


def simulated(rng: np.random.Generator, rate: float, count: int) -> list[Vote]:
    choices: list[Choice] = ["left", "right"]
    return [vote(A, B, choices[int(rng.random() > rate)], str(n)) for n in range(count)]


def test_interval_of_two_strengths_is_that_of_the_win_rate() -> None:
    """With two systems, the strength is the log-odds of the win rate; the bootstrap and Wilson agree for many votes."""
    votes = simulated(np.random.default_rng(1), 0.6, 2000)
    best = strengths(votes)[0]
    (pair,) = pair_results(votes)
    assert pair.win_rate is not None
    odds = [math.log(p / (1 - p)) / 2 for p in pair.win_rate.interval]
    assert best.interval == pytest.approx(odds, abs=0.01)


def test_missing_votes_settle_a_comparison_four_times_in_five() -> None:
    wins, losses = 13, 7
    missing = missing_votes(wins, losses, wins + losses)
    assert missing is not None
    rng, settled = np.random.default_rng(2), 0
    for _ in range(500):
        k = rng.binomial(wins + losses + missing, wins / (wins + losses))
        rate = proportion(int(k), wins + losses + missing)
        assert rate is not None
        settled += rate.interval[0] > 0.5
    assert settled / 500 == pytest.approx(0.8, abs=0.06)


def test_missing_votes_without_a_preference() -> None:
    assert missing_votes(90, 10, 100) == 0
    assert missing_votes(5, 5, 20) is None
    assert missing_votes(0, 0, 3) is None
    alone, with_ties = missing_votes(6, 4, 10), missing_votes(6, 4, 20)  # half of the votes have a preference
    assert alone is not None
    assert with_ties is not None
    assert with_ties + 20 == pytest.approx(2 * (alone + 10), abs=1)


def krippendorff_nominal(units: Sequence[Sequence[str]]) -> float:
    """Alpha by the coincidences of Krippendorff 2011: 1 - observed / expected disagreement."""
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]
    observed = sum(sum(a != b for a, b in itertools.permutations(unit, 2)) / (len(unit) - 1) for unit in units)
    expected = sum(a != b for a, b in itertools.permutations(values, 2)) / (len(values) - 1)
    return 1 - observed / expected


def test_agreement_between_judges() -> None:
    rng = np.random.default_rng(3)
    units, votes = [], []
    for number in range(40):
        true = rng.choice(get_args(Choice))
        unit = []
        for judge in ("anna", "ben", "cleo")[: rng.integers(1, 4)]:
            choice = true if rng.random() < 0.6 else rng.choice(get_args(Choice))
            unit.append(choice)
            if rng.random() < 0.5:
                votes.append(vote(A, B, choice, str(number), judge))
            else:  # the same vote with the sides swapped
                swapped = {"left": "right", "right": "left"}.get(choice, choice)
                votes.append(vote(B, A, swapped, str(number), judge))
        units.append(unit)
    result = agreement(votes)
    assert result.items == sum(len(unit) > 1 for unit in units)
    assert result.alpha == pytest.approx(krippendorff_nominal(units))
    assert agreement(votes[:1]) == JudgeAgreement(items=0, alpha=None)
    unanimous = [vote(A, B, "left", judge=judge) for judge in ("anna", "ben")]
    assert agreement(unanimous) == JudgeAgreement(items=1, alpha=None)
