"""Statistics of votes as tables for the terminal and the report, and as JSON."""

from __future__ import annotations

from typing import Any

from seq2seq_chat.report.votes.statistics import PairResult, Proportion, VoteStatistics
from seq2seq_chat.system.tables import NO_VALUE, format_table

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
    return [_pair_row(pair) for pair in statistics.pairs]


def _pair_row(pair: PairResult) -> list[str]:
    counts = (pair.wins, pair.losses, pair.both_good, pair.both_bad)
    missing = pair.missing_votes
    return [
        str(pair.first),
        str(pair.second),
        *(f"{count:,}" for count in counts),
        *_share(pair.win_rate),
        NO_VALUE if missing is None else f"about {missing:,}" if missing else "none",
    ]


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

    def share(proportion: Proportion | None) -> dict[str, Any] | None:
        return proportion and proportion._asdict()

    return {
        "votes": statistics.votes,
        "judges": statistics.judges,
        "pairs": [
            {
                **pair._asdict(),
                "first": pair.first._asdict(),
                "second": pair.second._asdict(),
                "win_rate": share(pair.win_rate),
                "missing_votes": pair.missing_votes,
            }
            for pair in statistics.pairs
        ],
        "strengths": [{**one._asdict(), "system": one.system._asdict()} for one in statistics.strengths],
        "left": share(statistics.left),
        "agreement": statistics.agreement._asdict(),
    }
