"""Statistics of votes: win rates, Bradley–Terry strengths, agreement between judges, and preference for a side.

Votes without a preference (both good, both bad) are reported apart from a win rate, which is the share of wins among
votes with a preference, and count as half a win for each system in the strengths.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import choix
import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest, norm

from seq2seq_chat.metrics.scores import RESAMPLES, SEED, confidence_interval
from seq2seq_chat.report.votes.evaluation import Outcome, System, Vote
from seq2seq_chat.system.tables import NO_VALUE, format_table

POWER = 0.8  # of the number of votes that would settle a comparison
PRIOR = 1.0  # votes without a preference that are added to each pair, so that strengths are finite

Interval = tuple[float, float]


class Proportion(NamedTuple):
    """A share of votes, its 95 % interval by Wilson (1927), and the p-value of a two-sided sign test against 1/2."""

    share: float
    interval: Interval
    p_value: float


class PairResult(NamedTuple):
    """The votes on two systems."""

    first: System
    second: System
    wins: int  # of the first
    losses: int
    both_good: int
    both_bad: int

    @property
    def votes(self) -> int:
        """The number of votes."""
        return self.wins + self.losses + self.both_good + self.both_bad

    @property
    def win_rate(self) -> Proportion | None:
        """The share of wins among votes with a preference; None if there are none."""
        return proportion(self.wins, self.wins + self.losses)

    @property
    def missing_votes(self) -> int | None:
        """About how many more votes settle which system is better; see :func:`missing_votes`."""
        return missing_votes(self.wins, self.losses, self.votes)


class Strength(NamedTuple):
    """The strength of a system: log-odds of winning against the average of the systems, in nats."""

    system: System
    value: float
    interval: Interval  # 95 %, by bootstrap over prompts


class Agreement(NamedTuple):
    """Agreement of judges on what several of them voted on."""

    items: int  # pairs of replies with at least two judges
    alpha: float | None  # Krippendorff's alpha: 1 if they always agree, 0 as by chance; None if it is undefined


class VoteStatistics(NamedTuple):
    """All statistics of votes."""

    votes: int
    judges: dict[str, int]  # votes of each judge
    pairs: list[PairResult]
    strengths: list[Strength]  # strongest first
    left: Proportion | None  # of votes with a preference, those for the left side
    agreement: Agreement


def vote_statistics(votes: Sequence[Vote]) -> VoteStatistics:
    """All statistics of votes, which are distinct."""
    choices = Counter(vote.choice for vote in votes)
    return VoteStatistics(
        votes=len(votes),
        judges=dict(sorted(Counter(vote.judge for vote in votes).items())),
        pairs=pair_results(votes),
        strengths=strengths(votes),
        left=proportion(choices["left"], choices["left"] + choices["right"]),
        agreement=agreement(votes),
    )


def proportion(successes: int, total: int) -> Proportion | None:
    """A share of votes; None if there are no votes."""
    if not total:
        return None
    test = binomtest(successes, total)
    interval = test.proportion_ci(method="wilson")
    return Proportion(successes / total, (float(interval.low), float(interval.high)), float(test.pvalue))


def missing_votes(wins: int, losses: int, votes: int) -> int | None:
    """About how many more votes exclude a win rate of 1/2 from its interval, if the observed shares are the true ones.

    The interval of Wilson excludes 1/2 when (p - 1/2)² > z² / 4n. With n votes, a win rate p leads to that with a
    probability of :data:`POWER`.

    Args:
        wins, losses: Votes with a preference.
        votes: All votes, with those without a preference.

    Returns:
        0 if the interval excludes 1/2 already; None if the votes show no difference.
    """
    rate = proportion(wins, wins + losses)
    if rate is None or wins == losses:
        return None
    if not rate.interval[0] <= 0.5 <= rate.interval[1]:
        return 0
    z, z_power, p = norm.ppf(0.975), norm.ppf(POWER), rate.share
    needed = ((z / 2 + z_power * math.sqrt(p * (1 - p))) / (p - 0.5)) ** 2
    return math.ceil(needed * votes / (wins + losses)) - votes


def pair_results(votes: Sequence[Vote]) -> list[PairResult]:
    """The votes on each pair of systems, most votes first."""
    counts: defaultdict[tuple[System, System], Counter[Outcome]] = defaultdict(Counter)
    for vote in votes:
        counts[vote.systems][vote.outcome] += 1
    results = [
        PairResult(*systems, *(count[outcome] for outcome in get_args(Outcome))) for systems, count in counts.items()
    ]
    return sorted(results, key=lambda result: (-result.votes, str(result.first), str(result.second)))


def strengths(votes: Sequence[Vote]) -> list[Strength]:
    """Bradley–Terry strengths, strongest first: P(i wins against j) = e^(s_i - s_j) / (1 + e^(s_i - s_j)).

    Each pair of systems gets :data:`PRIOR` additional votes without a preference. The intervals come from resampling
    prompts, since votes on the same replies are not independent.
    """
    systems = sorted({system for vote in votes for system in vote.systems}, key=str)
    if not systems:
        return []
    wins = _wins_by_prompt(votes, systems)
    prior = PRIOR / 2 * (1 - np.eye(len(systems)))
    values = choix.ilsr_pairwise_dense(wins.sum(axis=0) + prior)
    rng, resampled = np.random.default_rng(SEED), np.empty([RESAMPLES, len(systems)])
    for row in resampled:
        counts = np.bincount(rng.integers(0, len(wins), size=len(wins)), minlength=len(wins))
        row[:] = choix.ilsr_pairwise_dense(np.tensordot(counts, wins, axes=1) + prior, initial_params=values)
    intervals = map(confidence_interval, resampled.T)
    results = map(Strength, systems, map(float, values), intervals)
    return sorted(results, key=lambda strength: -strength.value)


def _wins_by_prompt(votes: Sequence[Vote], systems: Sequence[System]) -> npt.NDArray[np.float64]:
    """How often a system (row) won against another (column) on each prompt: float64 [prompts, systems, systems]."""
    prompts = {prompt: index for index, prompt in enumerate(dict.fromkeys(vote.prompt for vote in votes))}
    index = {system: number for number, system in enumerate(systems)}
    wins = np.zeros([len(prompts), len(systems), len(systems)])
    for vote in votes:
        first, second = (index[system] for system in vote.systems)
        share = {"first": 1.0, "second": 0.0}.get(vote.outcome, 0.5)
        wins[prompts[vote.prompt], first, second] += share
        wins[prompts[vote.prompt], second, first] += 1 - share
    return wins


def agreement(votes: Sequence[Vote]) -> Agreement:
    """Krippendorff's alpha over the values first better, second better, both good, both bad (Krippendorff 2011).

    ::

        alpha = 1 - observed / expected disagreement

    Observed are pairs of votes on the same replies, weighted by 1 / (votes on them - 1); expected are all pairs.
    """
    counts: defaultdict[tuple[str, tuple[System, System]], Counter[Outcome]] = defaultdict(Counter)
    for vote in votes:
        counts[vote.prompt, vote.systems][vote.outcome] += 1
    shared = np.array([[count[value] for value in get_args(Outcome)] for count in counts.values() if count.total() > 1])
    if not len(shared):
        return Agreement(0, None)
    sizes, values = shared.sum(axis=1), shared.sum(axis=0)
    observed = ((sizes**2 - (shared**2).sum(axis=1)) / (sizes - 1)).sum()
    expected = (values.sum() ** 2 - (values**2).sum()) / (values.sum() - 1)
    return Agreement(len(shared), float(1 - observed / expected) if expected else None)


PAIR_HEAD = (
    "system",
    "against",
    "wins",
    "losses",
    "both good",
    "both bad",
    "win rate",
    "95 % interval",
    "votes missing",
)
STRENGTH_HEAD = ("system", "strength", "95 % interval")


def pair_rows(statistics: VoteStatistics) -> list[list[str]]:
    """A row of :data:`PAIR_HEAD` for each pair of systems."""
    rows = []
    for pair in statistics.pairs:
        missing = pair.missing_votes
        rows.append(
            [
                *map(str, (pair.first, pair.second)),
                *(f"{count:,}" for count in (pair.wins, pair.losses, pair.both_good, pair.both_bad)),
                *_share(pair.win_rate),
                NO_VALUE if missing is None else f"about {missing:,}" if missing else "none",
            ]
        )
    return rows


def strength_rows(statistics: VoteStatistics) -> list[list[str]]:
    """A row of :data:`STRENGTH_HEAD` for each system."""
    return [
        [str(system), f"{value:+.2f}", f"{low:+.2f} to {high:+.2f}"]
        for system, value, (low, high) in statistics.strengths
    ]


def notes(statistics: VoteStatistics) -> list[str]:
    """Sentences on judges, their agreement, and whether they prefer a side."""
    judges = ", ".join(f"{judge} ({count:,})" for judge, count in statistics.judges.items())
    items, alpha = statistics.agreement
    shared = f"Votes of several judges: {items:,} {'pair' if items == 1 else 'pairs'} of replies"
    lines = [f"judges: {judges}", f"{shared}, Krippendorff's alpha {alpha:.2f}" if alpha is not None else shared]
    if statistics.left is not None:
        share, interval = _share(statistics.left)
        lines.append(
            f"the left side won {share} ({interval}; p = {statistics.left.p_value:.3f} if sides do not matter)"
        )
    return lines


def _share(proportion: Proportion | None) -> tuple[str, str]:
    if proportion is None:
        return NO_VALUE, NO_VALUE
    low, high = proportion.interval
    return f"{100 * proportion.share:.1f} %", f"{100 * low:.1f}–{100 * high:.1f} %"


def format_votes(statistics: VoteStatistics) -> str:
    """The statistics as tables for the terminal."""
    pairs = format_table([PAIR_HEAD, *pair_rows(statistics)], "llr")
    strengths = format_table([STRENGTH_HEAD, *strength_rows(statistics)], "lr")
    return "\n\n".join([f"{statistics.votes:,} votes", pairs, strengths, "\n".join(notes(statistics))])


def votes_as_json(statistics: VoteStatistics) -> dict[str, Any]:
    """The statistics for JSON."""

    return {
        "votes": statistics.votes,
        "judges": statistics.judges,
        "pairs": [
            {
                **pair._asdict(),
                "first": pair.first._asdict(),
                "second": pair.second._asdict(),
                "win_rate": pair.win_rate and pair.win_rate._asdict(),
                "missing_votes": pair.missing_votes,
            }
            for pair in statistics.pairs
        ],
        "strengths": [{**one._asdict(), "system": one.system._asdict()} for one in statistics.strengths],
        "left": statistics.left and statistics.left._asdict(),
        "agreement": statistics.agreement._asdict(),
    }
