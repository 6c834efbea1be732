"""Blind evaluation in a browser."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.report.votes.evaluation import Column, Evaluation, StoredReply, create_evaluation
from tests.webui.conftest import REPLY_TIMEOUT, Serve, download, open_page, problems_of, set_decoding

FITS = "() => [...document.querySelectorAll('#results .table-wrap')].every((n) => n.scrollWidth <= n.clientWidth)"
PROMPTS = ["you see the tree1 ?", "i like the song3 ?", "they know the house2 ?"]


@pytest.fixture
def evaluation(results: Path) -> Evaluation:
    """An evaluation of two snapshots with all replies."""
    columns = [Column(run="tiny", snapshot=step) for step in ("10", "20")]
    evaluation = create_evaluation(results, "test", columns, PROMPTS)
    for prompt, column in itertools.product(range(3), range(2)):
        evaluation.add_reply(StoredReply(prompt=prompt, column=column, text=f"reply {column}", step=column))
    return evaluation


def start(page: Any, expect: Any) -> None:
    """Start judging as anna, and wait for the first pair."""
    page.locator("#judge-name").fill("anna")
    page.keyboard.press("Enter")
    expect(page.locator(".choices button").first).to_be_enabled(timeout=REPLY_TIMEOUT)


def test_a_blind_evaluation(page: Any, serve: Serve, results: Path, tmp_path: Path, expect: Any) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("\n".join([*PROMPTS, ""]), encoding="utf-8")
    with serve(results) as address:
        open_page(page, address, "/judge")
        page.get_by_role("button", name="Start judging").click()
        expect(page.locator("#note")).to_contain_text("at least two columns")
        page.locator("#snapshot").select_option("10")
        page.locator("#add").click()
        page.locator("#snapshot").select_option("20")
        set_decoding(page, "Sampling", {"Temperature": 4})
        page.locator("#add").click()
        expect(page.locator("#columns li")).to_have_count(2)
        page.locator("#from-file").set_input_files(prompts)
        expect(page.locator("#prompt-count")).to_have_text("3 prompts")
        page.locator("#evaluation-name").fill("first eval?")
        page.get_by_role("button", name="Start judging").click()
        start(page, expect)
        skipped = page.locator("#prompt").inner_text()
        page.keyboard.press("5")
        expect(page.locator("#prompt")).not_to_have_text(skipped)
        for number in range(3):
            expect(page.locator(".choices button").first).to_be_enabled(timeout=REPLY_TIMEOUT)
            assert "tiny" not in page.locator("#judging").inner_text()  # blind
            prompt = page.locator("#prompt").inner_text()
            replies = [page.locator(f"#{side} .message-text").inner_text() for side in ("left", "right")]
            page.keyboard.press("1")
            expect(page.locator("#left .revealed")).to_contain_text("tiny")
            (file,) = (results / "votes").glob("*_first-eval/votes.jsonl")
            vote = json.loads(file.read_text(encoding="utf-8").splitlines()[number])
            assert (vote["prompt"], vote["choice"], vote["judge"]) == (prompt, "left", "anna")
            assert [vote["left_reply"] or "(empty)", vote["right_reply"] or "(empty)"] == replies
            page.keyboard.press("Enter")
            if number == 1:
                expect(page.locator("#status")).to_have_text("Only 1 skipped pair left.")
                page.keyboard.press("Enter")
        expect(page.locator("#status")).to_contain_text("Nothing is left")
        votes = json.loads(download(page, page.get_by_role("button", name="Download the votes").click))["votes"]
        assert (votes[2]["prompt"], votes[2]["left"]["run"]) == (skipped, "tiny")
        expect(page.locator("#results")).to_contain_text("The left side won 100.0 %")
        expect(page.locator("#results")).to_contain_text("anna (3)")
        page.set_viewport_size({"width": 320, "height": 640})
        expect(page.locator("#results .table-wrap")).to_have_count(2)
        # a strength may lie at the very end of its scale
        page.locator(".interval b").evaluate_all("all => all.forEach((one) => one.style.setProperty('left', '100%'))")
        # the page may still have its old layout when the new size is set
        page.wait_for_function(FITS)
        page.goto(f"{address}/judge")
        expect(page.locator("#evaluations tbody td")).to_have_text(["2", "3", "3", "1"])


def test_a_vote_is_taken_back_and_an_evaluation_deleted(
    page: Any, serve: Serve, results: Path, evaluation: Evaluation, expect: Any
) -> None:
    with serve(results) as address:
        page.goto(f"{address}/judge/{evaluation.path.name}")
        start(page, expect)
        first = PROMPTS[evaluation.items[0].prompt]
        page.get_by_role("button", name="Delete the evaluation").click()
        page.keyboard.press("3")  # is no vote while a dialog is open
        page.get_by_role("button", name="Cancel").click()
        for choice in ("1", "2"):
            expect(page.locator("#prompt")).to_have_text(first)
            page.keyboard.press(choice)
            expect(page.locator("#left .revealed")).to_contain_text("tiny")
            page.keyboard.press("Enter")
            expect(page.locator("#prompt")).not_to_have_text(first)
            expect(page.locator("#note")).to_have_text("1 of 3 pairs")
            assert not problems_of(page)
            if choice == "1":
                page.reload()
                start(page, expect)
                page.get_by_role("button", name="Undo the last vote").click()
                expect(page.locator("#status")).to_have_text("Your vote was taken back.")
                expect(page.locator("#judging")).to_be_focused()
        assert [vote.choice for vote in evaluation.votes()] == ["right"]
        (evaluation.path / "evaluation.json").write_text("{", encoding="utf-8")
        page.goto(f"{address}/judge")
        page.get_by_role("link", name=evaluation.path.name).click()
        expect(page.locator("#note")).to_contain_text("cannot be read")
        for answer in ("Cancel", "Delete"):
            page.get_by_role("button", name="Delete the evaluation").click()
            page.locator("dialog[open]").wait_for()
            assert not problems_of(page)
            assert evaluation.path.exists()
            page.locator("dialog").get_by_role("button", name=answer).click()
        page.wait_for_url(f"{address}/judge")
    assert list((results / "votes").iterdir()) == []


def test_a_vote_is_repeated_after_the_server_was_restarted(
    page: Any, serve: Serve, results: Path, evaluation: Evaluation, expect: Any
) -> None:
    with serve(results) as address:
        port = int(address.rsplit(":", 1)[1])
        page.goto(f"{address}/judge/{evaluation.path.name}")
        start(page, expect)
    page.keyboard.press("4")
    expect(page.locator("#status")).to_contain_text("does not respond")
    with serve(results, port=port):
        page.keyboard.press("4")
        expect(page.locator("#status")).to_have_text("Your vote is saved.")
    assert [vote.choice for vote in evaluation.votes()] == ["both_bad"]
