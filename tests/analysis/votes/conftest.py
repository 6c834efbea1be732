"""Votes on the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.report.votes.evaluation import Choice, Column, Evaluation, StoredReply, create_evaluation

WriteVotes = Callable[..., Evaluation]


@pytest.fixture
def write_votes() -> WriteVotes:
    """``write_votes(results, run, ["left", "both_bad"])``: votes of a judge on two snapshots of a run.

    The replies of the first one are on the left for "left", whatever side it had.
    """

    def write(results: Path, run: str, preferences: list[str], judge: str = "anna") -> Evaluation:
        columns = [Column(run=run, snapshot="10"), Column(run=run, snapshot="20")]
        evaluation = create_evaluation(results, "test", columns, [f"question {n}" for n in range(len(preferences))])
        for index, preference in enumerate(preferences):
            for column, step in enumerate((10, 20)):
                prompt = evaluation.items[index].prompt
                evaluation.add_reply(StoredReply(prompt=prompt, column=column, text=str(column), step=step))
            sides = evaluation.sides(index, judge)
            by_name: dict[str, Choice] = {"first": "left", "second": "right"} if sides == (0, 1) else {}
            by_name = by_name or {"first": "right", "second": "left"}
            evaluation.add_vote(judge, index, by_name.get(preference, preference))  # type: ignore[arg-type]
        return evaluation

    return write
