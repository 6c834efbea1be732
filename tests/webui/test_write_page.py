"""The page for language models: texts as they are written, their tokens, two snapshots, and stopping."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.chat.generator import GeneratedToken, Generator
from seq2seq_chat.config import Decoding
from seq2seq_chat.runs.run import Run
from tests.webui.conftest import (
    REPLY_TIMEOUT,
    download,
    hold,
    import_download,
    open_any_page,
    open_page,
    reload,
    serving,
)

TEXT = "the cat sat on a mat.\n"
SAMPLE = Decoding(method="sample")


@pytest.fixture(scope="module")
def results(writers: Path) -> Path:
    return writers


@pytest.fixture
def server(results: Path) -> Iterator[str]:
    with serving(results) as address:
        yield address


def write(page: Any, prompt: str, length: int, seed: int) -> Any:
    """Write on an open page; its texts, without the prompt, once they are complete."""
    page.locator("#text").fill(prompt)
    page.get_by_label("Tokens", exact=True).fill(str(length))
    page.get_by_label("Seed").fill(str(seed))
    page.keyboard.press("Control+Enter")
    page.locator("#texts").get_by_text(re.compile(r" (ms|s)$")).first.wait_for(timeout=REPLY_TIMEOUT)
    page.locator("#stop").wait_for(state="hidden", timeout=REPLY_TIMEOUT)
    return page.locator(".written")


def tokens_text(text: Any) -> str:
    return "".join(text.locator(".token").evaluate_all("spans => spans.map((span) => span.textContent)"))


def test_two_snapshots_write_side_by_side(page: Any, server: str, results: Path, expect: Any) -> None:
    run = Run(results / "writer")
    first, last = run.snapshots()
    open_page(page, server, "/?run=writer")
    assert page.url.startswith(f"{server}/write")
    expect(page.locator("#snapshot option").first).to_be_attached()
    page.get_by_label("Snapshot").select_option(first)
    page.get_by_label("Beside it").select_option(last)
    texts = write(page, "the cat", 70, 5)
    expect(texts).to_have_count(2)
    for index, snapshot in enumerate((first, last)):
        expected = "".join(Generator.load(run, snapshot).stream("the cat", 70, SAMPLE, 5))
        assert tokens_text(texts.nth(index)) == expected
    page.get_by_label("Beside it").select_option("")
    assert len(tokens_text(write(page, "", 40, 1))) == 40
    expect(texts).to_have_count(1)


def test_a_text_is_kept_and_its_link_writes_it_again(page: Any, server: str, tmp_path: Path, expect: Any) -> None:
    open_page(page, server, "/write?run=writer")
    page.get_by_label("Top k").fill("3")
    page.get_by_label("Top p").fill("0.9")
    with page.expect_request("**/api/generate") as request:
        text = tokens_text(write(page, "the Ω", 40, 4))
    assert {"top_k": 3, "top_p": 0.9}.items() <= request.value.post_data_json.items()
    note = page.locator(".text-note")
    expect(note).to_have_text("Note: the prompt has tokens that the model does not know: Ω.")
    reload(page)
    expect(page.locator(".token")).to_have_count(40)
    assert tokens_text(page.locator(".written")) == text
    assert [page.locator(name).input_value() for name in ("#text", "#top_k", "#seed")] == ["the Ω", "3", "4"]
    page.locator(".token").nth(3).hover()
    expect(page.locator("#details tr")).to_have_count(5)
    assert download(page, page.get_by_role("button", name="Download", exact=True).click) == f"the Ω{text}"
    import_download(page, page.get_by_role("button", name="JSON").click, tmp_path, expect)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    expect(note).to_contain_text("The text was copied")
    assert page.evaluate("() => navigator.clipboard.readText()") == f"the Ω{text}"
    page.get_by_role("button", name="Link").click()
    other = page.context.browser.new_context().new_page()
    other.goto(note.locator("a").get_attribute("href"))
    expect(other.locator(".text-note")).to_contain_text("The same text as when the link was made.", timeout=60_000)
    assert tokens_text(other.locator(".written")) == text
    assert other.locator("#top_p").input_value() == "0.9"
    other.context.close()


def test_tokens_show_their_alternatives(page: Any, server: str, results: Path, expect: Any) -> None:
    (block,) = Generator.load(Run(results / "writer")).explained_stream("the", 9, SAMPLE, 2)
    open_page(page, server, "/write?run=writer")
    spans = write(page, "the", 9, 2).locator(".token")
    surprises = spans.evaluate_all("spans => spans.map((span) => Number(span.style.getPropertyValue('--surprise')))")
    assert surprises == pytest.approx([1 - token.probability for token in block], abs=1e-4)
    details, rows = page.locator("#details"), page.locator("#details tr")
    expect(details).to_be_hidden()

    def shows(token: GeneratedToken) -> None:
        expect(details.locator("h2")).to_have_text(re.compile(rf" · {100 * token.probability:.1f} %$"))
        expect(rows.locator("td.num")).to_have_text([f"{100 * one.probability:.1f} %" for one in token.alternatives])

    spans.nth(4).hover()
    shows(block[4])
    spans.nth(0).focus()
    shows(block[0])
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(spans.nth(2)).to_be_focused()
    expect(spans.nth(2)).to_have_attribute("aria-describedby", "details")
    shows(block[2])
    page.keyboard.press("End")
    shows(block[8])
    assert page.locator(".token[tabindex='0']").count() == 1


STOP_AFTER_FOUR_TOKENS = """() => {
    const observer = new MutationObserver(() => {
        if (document.querySelectorAll(".token").length < 4) return;
        observer.disconnect();
        document.getElementById("stop").click();
    });
    observer.observe(document.getElementById("texts"), { childList: true, subtree: true });
}"""
"""Presses Stop from within the page, as a small model writes faster than a click from outside arrives."""


@pytest.mark.parametrize("way", ["reload", "again", "delete"])
def test_a_growing_text_is_kept(way: str, page: Any, server: str, monkeypatch: pytest.MonkeyPatch, expect: Any) -> None:
    def slowly(self: Generator, *args: Any) -> Iterator[list[GeneratedToken]]:
        for block in original(self, *args):
            yield block
            time.sleep(0.1)

    original = Generator.explained_stream
    monkeypatch.setattr(Generator, "explained_stream", slowly)
    open_page(page, server, "/write?run=writer")
    page.get_by_label("Tokens", exact=True).fill("5000")
    page.get_by_role("button", name="Write").click()
    expect(page.locator(".written .token").first).to_be_visible(timeout=REPLY_TIMEOUT)
    if way == "again":
        hold(page, "**/api/generate")
        page.get_by_role("button", name="Write").click()
        expect(page.locator(".written .token")).to_have_count(0)
        page.go_back()
    elif way == "delete":
        page.get_by_role("button", name="Earlier").click()
        page.locator("#delete-all").click()
        expect(page.locator("#kept-note")).to_contain_text("Everything was deleted.")
        assert not page.evaluate("async () => (await import('/static/js/kept.js')).allRecords()")
        return
    else:
        reload(page)
    expect(page.locator(".written .token").first).to_be_visible()
    expect(page.locator("#texts .hint")).to_have_text("Stopped")


def test_stop(page: Any, server: str, expect: Any) -> None:
    """The request ends, too, and with it the text on the server."""
    open_page(page, server, "/write?run=writer")
    page.get_by_label("Tokens", exact=True).fill("5000")
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/api/generate")):
        page.evaluate(STOP_AFTER_FOUR_TOKENS)
        page.get_by_role("button", name="Write").click()
    expect(page.locator("#texts .hint")).to_have_text(re.compile("^Stopped · "))
    expect(page.get_by_role("button", name="Write")).to_be_focused()
    hold(page, "**/api/generate")
    page.get_by_role("button", name="Write").click()
    page.go_back()
    expect(page.locator("#stop")).to_be_hidden()
    page.unroute("**/api/generate")
    page.route("**/api/generate", lambda route: route.fulfill(body=""))
    page.get_by_role("button", name="Write").click()
    expect(page.locator(".written-error")).to_contain_text("The connection was lost")


@pytest.mark.smoke
def test_a_run_of_another_task_opens_its_own_page(page: Any, server: str, expect: Any) -> None:
    page.goto(f"{server}/write?run=tiny")
    expect(page).to_have_title(re.compile("Chat"))
    open_page(page, server, "/write?run=writer")
    page.add_init_script("globalThis.setInterval = () => 0")  # no second look at the runs
    for path in ("/compare", "/judge", "/search", "/talk"):  # for which it has no replies
        open_page(page, server, path)
        expect(page.locator("#run")).to_have_value("tiny")
        expect(page.locator("option", has_text="writer")).to_have_count(0)


def test_a_first_visit_opens_the_page_of_the_newest_run_unless_there_is_a_note(
    page: Any, server: str, expect: Any
) -> None:
    for path, note in (
        ("/#reply=%7B%22run%22", "This link is incomplete."),
        (f"/chat/{'0' * 24}", "Nothing is kept under this"),
    ):
        other = page.context.browser.new_context().new_page()
        other.goto(server + path)
        expect(other.locator("#note")).to_contain_text(note)
        other.context.close()
    page.goto(server)
    expect(page).to_have_url(f"{server}/write?run=writer")


def test_talk_to_it_opens_the_page_of_the_last_run(page: Any, server: str, expect: Any) -> None:
    open_page(page, server, "/write?run=writer")
    open_any_page(page, server, "/runs")
    page.get_by_role("link", name="Talk to it").click()
    expect(page.locator("#run")).to_have_value("writer")
    assert "/write" in page.url
    page.go_back()
    expect(page).to_have_url(f"{server}/runs")
    open_page(page, server, "/?run=tiny")
    page.get_by_role("link", name="Talk to it").click()
    expect(page.locator("#run")).to_have_value("tiny")
