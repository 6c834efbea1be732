"""Evaluations on the disk: sides and order, repeated votes, what a crash leaves; and their results."""

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest

from seq2seq_chat.config import Decoding
from seq2seq_chat.report.evaluation_chapter import votes
from seq2seq_chat.report.measure import Report, ReportOptions, RunMeasurements
from seq2seq_chat.report.page import Chapter
from seq2seq_chat.report.votes.evaluation import (
    Column,
    Evaluation,
    StoredReply,
    create_evaluation,
    describe_decoding,
    distinct_votes,
    list_evaluations,
    votes_on_runs,
)
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from tests.conftest import Cli

COLUMNS = [
    Column(run="one", decoding={"method": "beam", "beam_width": 5}),
    Column(run="two", snapshot="10"),
    Column(run="three"),
]
PROMPTS = [f"question {n}?" for n in range(20)]


@pytest.fixture
def evaluation(tmp_path: Path) -> Evaluation:
    """An evaluation of three columns with all replies."""
    evaluation = create_evaluation(tmp_path, "test", COLUMNS, [*PROMPTS, *PROMPTS[:3]])
    for prompt, column in itertools.product(range(len(PROMPTS)), range(3)):
        evaluation.add_reply(StoredReply(prompt=prompt, column=column, text=f"reply of {column}", step=column))
    return evaluation


def test_every_pair_is_judged_once_for_every_prompt(evaluation: Evaluation) -> None:
    pairs = list(itertools.combinations(range(3), 2))
    assert sorted(evaluation.items) == [(prompt, pair) for prompt in range(20) for pair in pairs]
    assert evaluation.items != sorted(evaluation.items)
    assert Evaluation(evaluation.path).items == evaluation.items


def test_sides_are_random_and_reproducible(evaluation: Evaluation) -> None:
    sides = {judge: [evaluation.sides(n, judge) for n in range(60)] for judge in ("anna", "ben")}
    for judge, chosen in sides.items():
        assert [tuple(sorted(side)) for side in chosen] == [item.columns for item in evaluation.items]
        assert [Evaluation(evaluation.path).sides(n, judge) for n in range(60)] == chosen
        swapped = sum(left > right for left, right in chosen)
        assert 13 < swapped < 47  # 4.3 standard deviations
    assert sides["anna"] != sides["ben"]


def test_a_vote_records_what_was_shown(evaluation: Evaluation) -> None:
    vote = evaluation.add_vote("anna", 4, "right")
    item, (left, right) = evaluation.items[4], evaluation.sides(4, "anna")
    assert evaluation.votes() == [vote]
    assert (vote.prompt, vote.item, vote.choice) == (PROMPTS[item.prompt], 4, "right")
    assert (vote.left_reply, vote.right_reply) == (f"reply of {left}", f"reply of {right}")
    assert (vote.left.run, vote.right.run) == (COLUMNS[left].run, COLUMNS[right].run)
    assert (vote.left.step, vote.right.step) == (left, right)
    assert vote.outcome == ("second" if vote.right == vote.systems[1] else "first")


def test_first_votes_and_replies_count(evaluation: Evaluation) -> None:
    first = evaluation.add_vote("anna", 0, "left")
    evaluation.add_vote("anna", 0, "right")
    other = evaluation.add_vote("ben", 0, "right")
    assert evaluation.votes() == [first, other]
    assert evaluation.voted("anna") == {0: first}
    evaluation.withdraw("anna", 0)
    assert (evaluation.votes(), evaluation.voted("anna")) == ([other], {})
    again = evaluation.add_vote("anna", 0, "right")
    assert evaluation.votes() == [other, again]
    evaluation.add_reply(StoredReply(prompt=0, column=0, text="another", step=9))
    assert evaluation.replies()[0, 0].text == "reply of 0"
    assert Counter(column for _, column in evaluation.replies()) == {0: 20, 1: 20, 2: 20}


def test_an_item_is_done_even_if_its_systems_were_voted_on_before(tmp_path: Path) -> None:
    """The best weights may be the newest ones."""
    columns = [Column(run="one"), Column(run="one", snapshot="best"), Column(run="two")]
    evaluation = create_evaluation(tmp_path, "test", columns, PROMPTS[:1])
    for column, step in enumerate((7, 7, 5)):
        evaluation.add_reply(StoredReply(prompt=0, column=column, text=f"reply {step}", step=step))
    for index in range(3):
        evaluation.add_vote("anna", index, "both_good")
    assert evaluation.voted("anna").keys() == {0, 1, 2}
    assert len(evaluation.votes()) == 2


def test_the_same_judge_prompt_and_systems_in_two_evaluations_count_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        evaluation = create_evaluation(tmp_path, name, COLUMNS[:2], PROMPTS[:1])
        for column in range(2):
            evaluation.add_reply(StoredReply(prompt=0, column=column, text=str(column), step=1))
        evaluation.add_vote("anna", 0, "both_bad")
    assert len(list_evaluations(tmp_path)) == 2
    assert len(votes_on_runs(tmp_path, ["one", "two"])) == 1
    assert votes_on_runs(tmp_path, ["one", "three"]) == []
    assert len(distinct_votes(vote for each in list_evaluations(tmp_path) for vote in each.votes())) == 1


def test_a_crash_loses_at_most_the_last_vote(evaluation: Evaluation) -> None:
    """The file is cut at every byte of its last line, and voting goes on."""
    votes = [evaluation.add_vote("anna", n, "left") for n in range(3)]
    file = evaluation.path / "votes.jsonl"
    content = file.read_bytes()
    start = content.rindex(b"\n", 0, -1) + 1
    for end in range(start, len(content) - 1, 17):
        file.write_bytes(content[:end])
        assert evaluation.votes() == votes[:2]
        new = evaluation.add_vote("ben", 9, "both_good")
        assert evaluation.votes() == [*votes[:2], new]
    file.write_bytes(content[:-1])  # complete but for the line end
    new = evaluation.add_vote("ben", 9, "both_good")
    assert evaluation.votes() == [*votes, new]


def test_settings_that_cannot_be_read(evaluation: Evaluation) -> None:
    settings = evaluation.path / "evaluation.json"
    damage = lambda: settings.write_text('{"columns": []}', encoding="utf-8")  # noqa: E731
    for change, message in ((damage, "damaged"), (settings.unlink, "does not exist"), (settings.mkdir, "is a folder")):
        change()
        with pytest.raises(UserError, match=message):
            _ = Evaluation(evaluation.path).settings


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "greedy"),
        ({"method": "beam"}, "beam, beam_width 10"),
        ({"method": "beam", "n_best": 5, "length_penalty": 1.0}, "beam, beam_width 10, length_penalty 1.0"),
        ({"method": "sample", "temperature": 0.8, "seed": 3}, "sample, temperature 0.8, seed 3"),
    ],
)
def test_names_of_decoding_settings(settings: dict[str, object], text: str) -> None:
    assert describe_decoding(Decoding.model_validate(settings)) == text


PREFERENCES = ["first"] * 12 + ["second"] * 3 + ["both_good"] * 2 + ["both_bad"]


def test_comparison_with_votes(cli: Cli, run_copy: Path, tmp_path: Path) -> None:
    results = run_copy.parent
    compare = ("experiments", "compare", run_copy.name, "--results", results)
    assert "no votes" in cli(*compare, "--votes").error_message
    assert "strength" not in cli(*compare).out
    write_votes(results, run_copy.name)
    result = cli(*compare, "--votes", "--json", tmp_path / "votes.json")
    assert result.status == 0, result
    table, _, _ = result.out.partition("the left side won ")  # by chance in as many cases
    (line,) = [line for line in table.splitlines() if "54.8–93.0 %" in line]
    assert line.split()[-8:-5] == ["3", "2", "1"]  # losses, both good, both bad
    assert "80.0 %" in line and line.endswith("none")
    saved = json.loads((tmp_path / "votes.json").read_text(encoding="utf-8"))["votes"]
    (pair,) = saved["pairs"]
    assert pair["first"] == {"run": run_copy.name, "step": 10, "decoding": "greedy"}
    assert (pair["wins"], pair["losses"], saved["votes"], saved["judges"]) == (12, 3, 18, {"anna": 18})
    assert pair["win_rate"]["p_value"] == pytest.approx(0.03515625)  # 2 (1 + 15 + 105 + 455) / 2^15
    best, other = saved["strengths"]
    assert best["system"]["step"] == 10 and best["value"] == -other["value"] > 0


def test_chapter_of_a_report(run_copy: Path, tmp_path: Path) -> None:
    run = Run(run_copy)
    report = Report([RunMeasurements(run, "tiny", Decoding())], ReportOptions(), None, print)
    before, after = Chapter("before", tmp_path), Chapter("after", tmp_path)
    votes(before, report)
    assert "No votes yet" in str(before.blocks)
    write_votes(run_copy.parent, run.name)
    votes(after, report)
    pairs, strengths, *sentences = after.blocks
    assert pairs.rows[0][2:7] == ["12", "3", "2", "1", "80.0 %"]  # type: ignore[union-attr]
    assert [row[0] for row in strengths.rows] == [f"{run.name} at step {step}, greedy" for step in (10, 20)]  # type: ignore[union-attr]
    assert len(sentences) == 3


def write_votes(results: Path, run: str) -> None:
    """Votes of anna on two snapshots of a run: of each preference as many as in PREFERENCES."""
    columns = [Column(run=run, snapshot="10"), Column(run=run, snapshot="20")]
    evaluation = create_evaluation(results, "test", columns, [f"question {n}" for n in range(len(PREFERENCES))])
    for index, preference in enumerate(PREFERENCES):
        for column, step in enumerate((10, 20)):
            prompt = evaluation.items[index].prompt
            evaluation.add_reply(StoredReply(prompt=prompt, column=column, text=str(column), step=step))
        first, second = ("left", "right") if evaluation.sides(index, "anna") == (0, 1) else ("right", "left")
        choice = {"first": first, "second": second}.get(preference, preference)
        evaluation.add_vote("anna", index, choice)  # type: ignore[arg-type]
