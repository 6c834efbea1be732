"""The chapter of a report on blind evaluations."""

from __future__ import annotations

from seq2seq_chat.analysis.report.measure import Report
from seq2seq_chat.analysis.report.page import Page, Paragraph, Table
from seq2seq_chat.analysis.votes.evaluation import votes_on_runs
from seq2seq_chat.analysis.votes.statistics import vote_statistics
from seq2seq_chat.analysis.votes.tables import PAIR_HEAD, STRENGTH_HEAD, notes, pair_rows, strength_rows


def votes(page: Page, report: Report) -> None:
    """What people preferred, if they voted on these runs."""
    chapter = page.chapter("Blind evaluation")
    cast = votes_on_runs(report.runs[0].run.results, [run.name for run in report.runs])
    if not cast:
        runs = "this run" if len(report.runs) == 1 else "these runs"
        chapter.add(Paragraph(f"Nobody has voted on {runs}; the page Judge of seq2seq-chat serve collects votes."))
        return
    statistics = vote_statistics(cast)
    caption = (
        f"{statistics.votes:,} votes on pairs of replies whose systems were hidden. The win rate is the share of wins "
        "among votes with a preference, with a 95 % interval by Wilson; about as many votes are missing as exclude "
        "50 % from the interval in four of five evaluations."
    )
    chapter.add(Table(PAIR_HEAD, pair_rows(statistics), caption, numbers_from=2))
    caption = (
        "Bradley–Terry strengths: log-odds of winning against the average of these systems. A vote without a "
        "preference counts as half a win; the 95 % intervals resample prompts."
    )
    chapter.add(Table(STRENGTH_HEAD, strength_rows(statistics), caption, numbers_from=1))
    for note in notes(statistics):
        chapter.add(Paragraph(note[0].upper() + note[1:] + "."))
