"""The page on which models talk to each other: turns, seeds, and marks on what repeats."""

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest

from seq2seq_chat.runs.run import Run
from tests.webui.conftest import (
    REPLY_TIMEOUT,
    Serve,
    download,
    hold,
    open_page,
    problems_of,
    reload,
    set_decoding,
    set_view,
)


def talk(page: Any, text: str, turns: int) -> list[str]:
    """Talk on an open page; the replies."""
    page.get_by_label("First message").fill(text)
    page.get_by_label("Turns").fill(str(turns))
    page.get_by_role("button", name="Talk").click()
    page.locator("#copy").wait_for(timeout=REPLY_TIMEOUT)
    return page.locator(".talk-turn p").all_inner_texts()[1:]


def loop_by_definition(texts: str, speakers: int = 1, times: int = 2) -> list[int] | None:
    """[length, start] of the shortest end that repeats what is before it, extended backwards as far as it repeats."""
    for length in range(speakers, len(texts) // times + 1, speakers):
        for start in range(len(texts) - times * length + 1):
            if all(texts[i] == texts[i + length] for i in range(start, len(texts) - length)):
                return [length, start]
    return None


def test_loops_equal_their_definition(page: Any, shared_server: str) -> None:
    """All conversations of up to six turns with two texts, and some by hand."""
    open_page(page, shared_server, "/talk?run=tiny")
    texts = ["".join(one) for n in range(7) for one in product("ab", repeat=n)]
    texts += ["abcabc", "xabcabc", "abcab", "xyabab"]
    script = """async (texts) => {
        const { findLoop, repeatedTurn } = await import("/static/js/repetition.js");
        const loopOf = (loop) => loop && [loop.length, loop.start];
        return texts.map((text) => {
            const loops = [[], [2], [1, 3]].map((options) => loopOf(findLoop([...text], ...options)));
            return [...loops, [...text].map((_, index) => repeatedTurn([...text], index))];
        });
    }"""
    for text, (loop, of_two, thrice, repeated) in zip(texts, page.evaluate(script, texts), strict=True):
        assert loop == loop_by_definition(text), text
        assert of_two == loop_by_definition(text, speakers=2), text
        assert thrice == loop_by_definition(text, times=3), text
        assert repeated == [None if text.index(one) == n else text.index(one) for n, one in enumerate(text)]
    assert loop_by_definition("xyabab") == [2, 2]


def test_a_model_talks_with_itself_until_it_loops(page: Any, shared_server: str, expect: Any) -> None:
    """Each turn is the model's reply to the one before, as over HTTP."""
    open_page(page, shared_server, "/talk?run=tiny")
    replies = talk(page, "you see the tree1 ?", 12)
    text = "you see the tree1 ?"
    for reply in replies:
        answer = page.request.post(f"{shared_server}/api/chat", data={"run": "tiny", "text": text}).json()
        assert (answer["reply"] or "(empty reply)") == reply
        text = answer["reply"]
    length, start = loop_by_definition(replies) or [0, 0]  # a list of texts works as a text does
    assert len(replies) == 12 or length
    expect(page.locator(".talk-turn .tag")).to_have_count(len(replies) - len(set(replies)))
    expect(page.locator(".talk-turn.in-loop")).to_have_count(len(replies) - start if length else 0)
    expect(page.locator("#summary")).to_contain_text(f"{len(set(replies))} of them distinct")


def open_two(page: Any, address: str) -> None:
    """Let the newest weights of ``tiny`` talk to an early snapshot of ``other``, with sampling and seed 7."""
    open_page(page, address, "/talk?run=tiny")
    page.get_by_label("Talks to").select_option("other")
    page.locator("#partner-snapshot").select_option("10")
    set_decoding(page, "Sampling", {"Temperature": 5})
    page.locator("#seed").fill("7")
    page.get_by_label("End the conversation when it loops").uncheck()


def test_a_link_shows_the_same_conversation(page: Any, serve: Serve, results: Path, expect: Any) -> None:
    """Or says why not. In another browser, also after training has gone on, and when the weights are gone."""
    shutil.copytree(results / "tiny", results / "other")
    run = Run(results / "tiny")
    with serve(results) as address:
        open_two(page, address)
        replies = talk(page, "hello", 5)
        page.get_by_role("button", name="Link").click()
        link = page.locator("#action-note a").get_attribute("href")
        shutil.copy(run.checkpoint_path(15), run.checkpoint_path(30))  # newer weights, with which it would be another
        other = page.context.browser.new_context().new_page()
        summary = other.locator("#summary")
        other.goto(link)
        expect(summary).to_contain_text("The same conversation as when the link was made. 5 replies", timeout=60_000)
        assert other.locator(".talk-turn p").all_inner_texts() == ["hello", *replies]
        fields = {name: other.locator(f"#{name}").input_value() for name in ("seed", "partner", "partner-snapshot")}
        assert fields == {"seed": "7", "partner": "other", "partner-snapshot": "10"}
        path, fragment = link.split("#")
        record = json.loads(parse_qs(fragment)["talk"][0])
        record["replies"][2]["text"] += "!"  # as if it had been given by another version of the program
        other.goto("about:blank")
        other.goto(f"{path}#{urlencode({'talk': json.dumps(record)})}")
        expect(summary).to_contain_text("From turn 3 on, the models reply differently")
        run.checkpoint_path(20).unlink()
        shutil.rmtree(run.path / "snapshots" / "20")
        other.goto("about:blank")
        other.goto(link)
        expect(summary).to_contain_text("cannot be computed again: run tiny has no weights of step 20 any more")
        assert other.locator(".talk-turn p").all_inner_texts() == ["hello", *replies]
        other.context.close()


@pytest.mark.smoke
def test_files(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, "/talk?run=tiny")
    page.get_by_label("End the conversation when it loops").uncheck()
    replies = talk(page, "you see *this* ?", 3)
    markdown, saved = (
        download(page, page.get_by_role("button", name=f"Download as {name}").click) for name in ("Markdown", "JSON")
    )
    turns = "".join(f"**tiny · latest, step 20 · greedy**\n\n> {reply}\n\n" for reply in replies)
    assert markdown == f"# you see *this* ?\n\n**You**\n\n> you see *this* ?\n\n{turns}"
    talked = json.loads(saved)["conversations"][0]["talk"]
    assert talked["text"] == "you see *this* ?"
    assert talked["replies"] == [{"text": reply, "step": 20} for reply in replies]
    assert talked["models"] == [{"run": "tiny", "snapshot": "latest"}] * 2


def test_a_conversation_survives_a_reload(page: Any, shared_server: str, expect: Any) -> None:
    open_two(page, shared_server)
    replies = talk(page, "hello", 3)
    summary = page.locator("#summary").inner_text()
    assert "seed 7" in summary
    expect(page.locator(".talk-head")).to_contain_text(["first message", "tiny", "other", "tiny"])
    reload(page)
    expect(page.locator(".talk-turn p")).to_have_text(["hello", *replies])
    expect(page.locator("#summary")).to_have_text(summary)
    expect(page.locator("#partner")).to_have_value("other")
    expect(page.locator("#partner-snapshot")).to_have_value("10")
    assert talk(page, "hello", 3) != replies  # another seed


def test_stop(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, "/talk?run=tiny")
    hold(page, "**/api/chat")
    page.get_by_role("button", name="Talk").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#summary")).to_contain_text("Stopped. 0 replies")
    page.get_by_role("button", name="Talk").click()
    page.go_back()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    page.get_by_label("First message").fill(" ")
    page.get_by_role("button", name="Talk").click()
    expect(page.locator("#note")).to_contain_text("Write a first message")
    page.get_by_label("First message").fill("bananas")
    page.get_by_role("button", name="Talk").click()
    reload(page)
    expect(page.locator(".talk-turn p")).to_have_text(["bananas"])
    held = hold(page, "**/api/runs/other")
    page.get_by_label("Talks to").select_option("other")
    page.get_by_label("Talks to").select_option("")
    with page.expect_response("**/api/runs/other"):
        held[0].fulfill(json={"snapshots": ["x"]})
    expect(page.locator("#partner-snapshot option").first).to_have_text("latest (step 20)")


@pytest.mark.parametrize(("width", "colors"), [(320, "dark"), (1100, "light")])
def test_the_page_is_accessible_and_fits(page: Any, shared_server: str, width: int, colors: str) -> None:
    set_view(page, width, colors)
    open_page(page, shared_server, "/talk?run=tiny")
    talk(page, "you see the tree1 ?", 8)
    assert not problems_of(page)
