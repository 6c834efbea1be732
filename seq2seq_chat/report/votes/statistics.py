"""Statistics of votes: win rates, Bradley–Terry strengths, agreement between judges, and preference for a side.

Votes without a preference (both good, both bad) are reported apart from a win rate, which is the share of wins among
votes with a preference, and count as half a win for each system in the strengths.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Annotated, get_args

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field, NonNegativeInt

from seq2seq_chat.report.votes.evaluation import Outcome, System, Vote
from seq2seq_chat.system.tables import NO_VALUE, format_table, pluralize

POWER = 0.8  # of the number of votes that would settle a comparison
PRIOR = 1.0  # votes without a preference that are added to each pair, so that strengths are finite

Interval = Annotated[list[float], Field(min_length=2, max_length=2, description="95 % interval")]


class HiddenSystem(BaseModel):
    """What has replied; revealed by a vote."""

    run: str
    step: int | None
    decoding: str

    __str__ = System.__str__


class Share(BaseModel):
    """A share of votes."""

    share: float
    interval: Interval  # by Wilson (1927)
    p_value: float  # of a two-sided sign test against 1/2


class PairStatistics(BaseModel):
    """The votes on a pair of systems."""

    first: HiddenSystem
    second: HiddenSystem
    wins: NonNegativeInt  # of the first
    losses: NonNegativeInt
    both_good: NonNegativeInt
    both_bad: NonNegativeInt
    win_rate: Share | None  # wins among votes with a preference; None if there are none
    missing_votes: NonNegativeInt | None = Field(description="0: settled; null: no difference so far")


class SystemStrength(BaseModel):
    """The strength of a system."""

    system: HiddenSystem
    value: float  # log-odds of winning against the average of the systems, in nats
    interval: Interval  # by bootstrap over prompts


class JudgeAgreement(BaseModel):
    """The agreement of judges, by Krippendorff's alpha."""

    items: NonNegativeInt  # pairs of replies with at least two judges
    alpha: float | None  # 1 if they always agree, 0 as by chance; None if it is undefined


class EvaluationStatistics(BaseModel):
    """The statistics of votes."""

    votes: NonNegativeInt
    judges: dict[str, NonNegativeInt]  # votes of each judge
    pairs: list[PairStatistics]
    strengths: list[SystemStrength]  # strongest first
    left: Share | None = Field(description="share of the left side")  # among votes with a preference
    agreement: JudgeAgreement


def vote_statistics(votes: Sequence[Vote]) -> EvaluationStatistics:
    """All statistics of votes, which are distinct. Raises ModuleNotFoundError without choix, sacrebleu or scipy."""
    choices = Counter(vote.choice for vote in votes)
    return EvaluationStatistics(
        votes=len(votes),
        judges=dict(sorted(Counter(vote.judge for vote in votes).items())),
        pairs=pair_results(votes),
        strengths=strengths(votes),
        left=proportion(choices["left"], choices["left"] + choices["right"]),
        agreement=agreement(votes),
    )


def proportion(successes: int, total: int) -> Share | None:
    """A share of votes; None if there are no votes."""
    from scipy.stats import binomtest

    if not total:
        return None
    test = binomtest(successes, total)
    interval = test.proportion_ci(method="wilson")
    return Share(share=successes / total, interval=[interval.low, interval.high], p_value=test.pvalue)


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
    from scipy.stats import norm

    rate = proportion(wins, wins + losses)
    if rate is None or wins == losses:
        return None
    if not rate.interval[0] <= 0.5 <= rate.interval[1]:
        return 0
    z, z_power, p = norm.ppf(0.975), norm.ppf(POWER), rate.share
    needed = ((z / 2 + z_power * math.sqrt(p * (1 - p))) / (p - 0.5)) ** 2
    return math.ceil(needed * votes / (wins + losses)) - votes


def pair_results(votes: Sequence[Vote]) -> list[PairStatistics]:
    """The votes on each pair of systems, most votes first."""
    counts: defaultdict[tuple[System, System], Counter[Outcome]] = defaultdict(Counter)
    for vote in votes:
        counts[vote.systems][vote.outcome] += 1
    return [
        PairStatistics(
            first=_hidden(first),
            second=_hidden(second),
            wins=count["first"],
            losses=count["second"],
            both_good=count["both_good"],
            both_bad=count["both_bad"],
            win_rate=proportion(count["first"], count["first"] + count["second"]),
            missing_votes=missing_votes(count["first"], count["second"], count.total()),
        )
        for (first, second), count in sorted(counts.items(), key=lambda pair: (-pair[1].total(), *map(str, pair[0])))
    ]


def _hidden(system: System) -> HiddenSystem:
    return HiddenSystem(**system._asdict())


def strengths(votes: Sequence[Vote]) -> list[SystemStrength]:
    """Bradley–Terry strengths, strongest first: P(i wins against j) = e^(s_i - s_j) / (1 + e^(s_i - s_j)).

    Each pair of systems gets :data:`PRIOR` additional votes without a preference. The intervals come from resampling
    prompts, since votes on the same replies are not independent.
    """
    import choix

    from seq2seq_chat.metrics.scores import RESAMPLES, SEED, confidence_interval

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
    results = [
        SystemStrength(system=_hidden(system), value=value, interval=list(confidence_interval(column)))
        for system, value, column in zip(systems, values, resampled.T, strict=True)
    ]
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


def agreement(votes: Sequence[Vote]) -> JudgeAgreement:
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
        return JudgeAgreement(items=0, alpha=None)
    sizes, values = shared.sum(axis=1), shared.sum(axis=0)
    observed = ((sizes**2 - (shared**2).sum(axis=1)) / (sizes - 1)).sum()
    expected = (values.sum() ** 2 - (values**2).sum()) / (values.sum() - 1)
    return JudgeAgreement(items=len(shared), alpha=1 - observed / expected if expected else None)


PAIR_HEAD = (
    *("system", "against", "wins", "losses", "both good", "both bad"),
    *("win rate", "95 % interval", "votes missing"),
)
STRENGTH_HEAD = ("system", "strength", "95 % interval")


def pair_rows(statistics: EvaluationStatistics) -> list[list[str]]:
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


def strength_rows(statistics: EvaluationStatistics) -> list[list[str]]:
    """A row of :data:`STRENGTH_HEAD` for each system."""
    return [
        [str(one.system), f"{one.value:+.2f}", "{:+.2f} to {:+.2f}".format(*one.interval)]
        for one in statistics.strengths
    ]


def notes(statistics: EvaluationStatistics) -> list[str]:
    """Sentences on judges, their agreement, and whether they prefer a side."""
    judges = ", ".join(f"{judge} ({count:,})" for judge, count in statistics.judges.items())
    items, alpha = statistics.agreement.items, statistics.agreement.alpha
    shared = f"Votes of several judges: {pluralize(items, 'pair')} of replies"
    lines = [f"judges: {judges}", f"{shared}, Krippendorff's alpha {alpha:.2f}" if alpha is not None else shared]
    if statistics.left is not None:
        share, interval = _share(statistics.left)
        lines.append(
            f"the left side won {share} ({interval}; p = {statistics.left.p_value:.3f} if sides do not matter)"
        )
    return lines


def _share(proportion: Share | None) -> tuple[str, str]:
    if proportion is None:
        return NO_VALUE, NO_VALUE
    low, high = proportion.interval
    return f"{100 * proportion.share:.1f} %", f"{100 * low:.1f}–{100 * high:.1f} %"


def format_votes(statistics: EvaluationStatistics) -> str:
    """The statistics as tables for the terminal."""
    pairs = format_table([PAIR_HEAD, *pair_rows(statistics)], "llr")
    strengths = format_table([STRENGTH_HEAD, *strength_rows(statistics)], "lr")
    return "\n\n".join([pluralize(statistics.votes, "vote"), pairs, strengths, "\n".join(notes(statistics))])
