"""Votes on the command line and in a report."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.config import Decoding
from seq2seq_chat.report.evaluation_chapter import votes
from seq2seq_chat.report.measure import Report, ReportOptions, RunMeasurements
from seq2seq_chat.report.page import Chapter
from seq2seq_chat.report.votes.evaluation import Choice, Column, Evaluation, StoredReply, create_evaluation
from seq2seq_chat.runs.run import Run
from tests.conftest import Cli

PREFERENCES = ["first"] * 12 + ["second"] * 3 + ["both_good"] * 2 + ["both_bad"]


def test_comparison_with_votes(cli: Cli, run_copy: Path, tmp_path: Path, write_votes: Callable[..., Any]) -> None:
    results = run_copy.parent
    compare = ("experiments", "compare", run_copy.name, "--results", results)
    assert "no votes" in cli(*compare, "--votes").error_message
    assert "strength" not in cli(*compare).out
    write_votes(results, run_copy.name, PREFERENCES)
    result = cli(*compare, "--votes", "--json", tmp_path / "votes.json")
    assert result.status == 0, result
    (line,) = [line for line in result.out.splitlines() if "80.0 %" in line]
    assert line.split()[-8:-5] == ["3", "2", "1"]  # losses, both good, both bad
    assert "54.8–93.0 %" in line and line.endswith("none")
    saved = json.loads((tmp_path / "votes.json").read_text(encoding="utf-8"))["votes"]
    (pair,) = saved["pairs"]
    assert pair["first"] == {"run": run_copy.name, "step": 10, "decoding": "greedy"}
    assert (pair["wins"], pair["losses"], saved["votes"], saved["judges"]) == (12, 3, 18, {"anna": 18})
    assert pair["win_rate"]["p_value"] == pytest.approx(0.03515625)  # 2 (1 + 15 + 105 + 455) / 2^15
    best, other = saved["strengths"]
    assert best["system"]["step"] == 10 and best["value"] == -other["value"] > 0


def test_chapter_of_a_report(run_copy: Path, tmp_path: Path, write_votes: Callable[..., Any]) -> None:
    run = Run(run_copy)
    report = Report([RunMeasurements(run, "tiny", Decoding())], ReportOptions(), None, "", print)
    before, after = Chapter("before", tmp_path), Chapter("after", tmp_path)
    votes(before, report)
    assert "Nobody has voted" in str(before.blocks)
    write_votes(run_copy.parent, run.name, PREFERENCES)
    votes(after, report)
    pairs, strengths, *sentences = after.blocks
    assert pairs.rows[0][2:7] == ["12", "3", "2", "1", "80.0 %"]  # type: ignore[union-attr]
    assert [row[0] for row in strengths.rows] == [f"{run.name} at step {step}, greedy" for step in (10, 20)]  # type: ignore[union-attr]
    assert len(sentences) == 3


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
