"""The page on which models talk to each other: turns, seeds, and marks on what repeats."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest

from seq2seq_chat.runs.run import Run
from tests.webui.conftest import REPLY_TIMEOUT, open_page, serving

Serve = Callable[..., AbstractContextManager[str]]


@pytest.fixture(scope="module")
def server(shared_results: Any) -> Iterator[str]:
    with serving(shared_results) as address:
        yield address


def talk(page: Any, text: str, turns: int) -> list[str]:
    """Talk on an open page; the replies."""
    page.get_by_label("First message").fill(text)
    page.get_by_label("Turns").fill(str(turns))
    page.get_by_role("button", name="Talk").click()
    page.locator("#copy").wait_for(timeout=REPLY_TIMEOUT)
    return page.locator(".talk-turn p").all_inner_texts()[1:]


def loop_by_definition(texts: str) -> list[int] | None:
    """[length, start] of the shortest end that repeats what is before it, extended backwards as far as it repeats."""
    for length in range(1, len(texts) // 2 + 1):
        for start in range(len(texts) - 2 * length + 1):
            if all(texts[i] == texts[i + length] for i in range(start, len(texts) - length)):
                return [length, start]
    return None


def test_loops_equal_their_definition(page: Any, server: str) -> None:
    """All conversations of up to six turns with two texts, and some by hand."""
    open_page(page, server, "/talk?run=tiny")
    texts = ["".join(one) for n in range(7) for one in product("ab", repeat=n)]
    texts += ["abcabc", "xabcabc", "abcab", "xyabab"]
    script = """async (texts) => {
        const { findLoop, repeatedTurn } = await import("/static/js/repetition.js");
        return texts.map((text) => {
            const loop = findLoop([...text]);
            return [loop && [loop.length, loop.start], [...text].map((_, index) => repeatedTurn([...text], index))];
        });
    }"""
    for text, (loop, repeated) in zip(texts, page.evaluate(script, texts), strict=True):
        assert loop == loop_by_definition(text), text
        assert repeated == [None if text.index(one) == n else text.index(one) for n, one in enumerate(text)]
    assert loop_by_definition("xyabab") == [2, 2]


@pytest.mark.slow
def test_a_model_talks_with_itself_until_it_loops(page: Any, server: str, expect: Any) -> None:
    """Each turn is the model's reply to the one before, as over HTTP."""
    open_page(page, server, "/talk?run=tiny")
    replies = talk(page, "you see the tree1 ?", 12)
    text = "you see the tree1 ?"
    for reply in replies:
        answer = page.request.post(f"{server}/api/chat", data={"run": "tiny", "text": text}).json()
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
    page.locator("#decoding-button").click()
    page.locator("label", has_text="Sampling").click()
    page.get_by_label("Temperature").fill("5")
    page.locator("#decoding .btn-close").click()
    page.locator("#decoding").wait_for(state="hidden")
    page.locator("#seed").fill("7")
    page.get_by_label("End the conversation when it loops").uncheck()


@pytest.mark.slow
def test_a_link_shows_the_same_conversation_or_says_why_not(
    page: Any, serve: Serve, results: Path, expect: Any
) -> None:
    """In another browser, also after training has gone on, and when the weights are gone."""
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
        assert [other.locator(f"#{name}").input_value() for name in ("seed", "partner", "partner-snapshot")] == [
            "7",
            "other",
            "10",
        ]
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
def test_files(page: Any, server: str, expect: Any) -> None:
    open_page(page, server, "/talk?run=tiny")
    page.get_by_label("End the conversation when it loops").uncheck()
    replies = talk(page, "you see *this* ?", 3)
    contents = []
    for name in ("Markdown", "JSON"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Download as {name}").click()
        contents.append(Path(download.value.path()).read_text(encoding="utf-8"))
    turns = "".join(f"**tiny · latest, step 20 · greedy**\n\n> {reply}\n\n" for reply in replies)
    assert contents[0] == f"# you see *this* ?\n\n**You**\n\n> you see *this* ?\n\n{turns}"
    saved = json.loads(contents[1])
    assert (saved["format"], saved["text"]) == ("seq2seq-chat talk", "you see *this* ?")
    assert saved["replies"] == [{"text": reply, "step": 20} for reply in replies]
    assert saved["models"] == [{"run": "tiny", "snapshot": "latest"}] * 2


@pytest.mark.slow
def test_two_snapshots_talk_with_a_seed(page: Any, server: str, expect: Any) -> None:
    open_two(page, server)
    first = talk(page, "hello", 6)
    assert len(first) == 6
    expect(page.locator(".talk-head")).to_contain_text(["first message", "tiny", "other", "tiny"])
    expect(page.locator("#summary")).to_contain_text("seed 7")
    assert talk(page, "hello", 6) == first


@pytest.mark.slow
def test_stop(page: Any, server: str, expect: Any) -> None:
    open_page(page, server, "/talk?run=tiny")
    held: list[Any] = []
    page.route("**/api/chat", lambda route: held.append(route))  # noqa: PLW0108  never answered
    page.get_by_role("button", name="Talk").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#summary")).to_contain_text("Stopped. 0 replies")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "colors"), [(320, "dark"), (1100, "light")])
def test_axe_finds_no_violations(page: Any, server: str, width: int, colors: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=colors)
    open_page(page, server, "/talk?run=tiny")
    talk(page, "you see the tree1 ?", 8)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    results = Axe().run(page).response
    assert not results["violations"], [(one["id"], one["nodes"][0]["html"][:200]) for one in results["violations"]]
