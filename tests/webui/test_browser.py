"""The web UI in a browser: mouse, keyboard, phone, accessibility, errors."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.webui.conftest import (
    REPLY_TIMEOUT,
    Serve,
    choose_beam,
    download,
    fulfill_reply,
    hold,
    open_any_page,
    open_page,
    problems_of,
    reload,
    set_decoding,
    set_view,
    submit,
)

QUESTION = "you see the tree1 ?"


def send(page: Any, text: str) -> Any:
    """Send a message and wait for the reply or error; its element."""
    count = page.locator(".message.you").count()
    submit(page, text)
    page.locator(".message.you").nth(count).wait_for(timeout=REPLY_TIMEOUT)
    last = page.locator("#log > *").last.locator(".message.model, .error, .stopped")
    last.wait_for(timeout=REPLY_TIMEOUT)
    return last


def explanation(message: Any) -> Any:
    message.locator("summary").first.click()
    return message.locator(".why-inner")


@pytest.mark.smoke
def test_a_conversation(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    expect(page.locator("#text")).to_be_focused()
    page.locator("#text").press_sequentially("you see")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("the tree1 ?")
    page.locator("#text").dispatch_event("keydown", {"key": "Enter", "keyCode": 229})  # ends an input method's word
    assert page.locator("#text").input_value() == "you see\nthe tree1 ?"
    page.keyboard.press("Enter")
    page.locator(".message.model").wait_for(timeout=REPLY_TIMEOUT)
    expect(page.locator("#text")).to_have_value("")
    expect(page.locator("#text")).to_be_focused()
    expect(page.locator(".message.you .message-text")).to_have_text(re.compile("you see\\s+the tree1 ?"))
    assert page.locator(".message.model .message-text").inner_text()
    expect(page.locator(".typing")).to_have_count(0)
    page.keyboard.press("ArrowUp")
    expect(page.locator("#text")).to_have_value("you see\nthe tree1 ?")
    page.locator("#text").fill("")
    send(page, QUESTION)
    for text in (QUESTION, "you see\nthe tree1 ?"):
        page.keyboard.press("ArrowUp")
        expect(page.locator("#text")).to_have_value(text)


def test_explanation_of_a_reply_with_two_vocabularies(page: Any, shared_server: str, expect: Any) -> None:
    """Subwords and bytes of the source, characters of a reply that is written from right to left."""
    text, damaged = "ש \n\u0301", "0000000020.npz is damaged"
    answer = {
        **{"reply": text, "alternatives": [{"text": text, "score": -1.0}, {"text": " ", "score": -2.0}]},
        **{"unknown_words": ["<U+200D>"], "attention": [[0.5, 0.26, 0.14, 0.1, 0.0]] * 4},
        "source_words": ["▁Hallo", "▁", "<0x0A>", "<U+200D>", "<unknown>"],
        "reply_words": ["ש", "<space>", "<newline>", "<U+0301>"],
        **{"seconds": 0.1, "ended": False, "run": "other", "step": 7, "seed": None, "warnings": [damaged]},
    }
    open_page(page, shared_server, "/?run=other")
    page.route("**/api/chat/stream", lambda route: fulfill_reply(route, answer))
    message = send(page, "שלום עולם (world)")
    expect(message.locator(".warning")).to_contain_text(damaged)
    direction = "node => getComputedStyle(node).direction"
    assert page.locator(".message.you .message-text").evaluate(direction) == "rtl"
    assert message.locator(".message-text").first.evaluate(direction) == "rtl"
    inner = explanation(message)
    expect(inner.locator(".map thead th")).to_have_text(["␣Hallo", "␣", "0A", "U+200D", "<unknown>"])
    expect(inner.locator(".map tbody th")).to_have_text(["ש", "␣", "↵", "U+0301"])
    cells = inner.locator(".map tbody tr").first.locator("td")
    assert [int(weight or 0) for weight in cells.all_inner_texts()] == [50, 26, 14, 10, 0]
    colors = [cell.evaluate("cell => getComputedStyle(cell).backgroundColor") for cell in cells.all()]
    assert len(set(colors)) == 5
    expect(inner.locator(".map thead th.unknown-word")).to_have_text(["U+200D"])
    expect(inner.locator(".word")).to_have_text(["U+200D"])
    expect(inner.locator(".hypothesis")).to_have_text([re.compile("ש"), "(empty)"])
    expect(inner.locator(".hypotheses td.num").last).to_have_text("-2.00")
    expect(inner.locator(".facts-list dd").first).to_have_text("100 ms, 40 tokens per second")
    expect(inner.locator(".facts-list dd").nth(1)).to_have_text("the length limit")
    expect(inner.locator(".facts-list dd").last).to_have_text("ש ␣ ↵ U+0301")
    assert not page.evaluate("() => document.documentElement.scrollWidth > innerWidth")


def test_switching_models_within_a_conversation(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    send(page, QUESTION)
    page.locator("#run").select_option("other")
    page.locator("#snapshot").select_option("10")
    set_decoding(page, "Beam search", {"Beam width": 3})
    last = send(page, QUESTION)
    expect(page.locator(".message.model")).to_have_count(2)
    expect(last.locator(".meta")).to_contain_text("other · step 10 · beam 3")
    expect(explanation(last).locator(".facts-list")).to_contain_text("10 steps")


def test_an_invalid_setting_is_reported_and_not_used(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    page.locator("#decoding-button").click()
    page.locator("label", has_text="Beam search").click()
    width = page.get_by_label("Beam width")
    width.fill("0")
    expect(page.locator(".field-error", has_text="whole number")).to_be_visible()
    expect(width).to_have_attribute("aria-invalid", "true")
    width.fill("4")
    expect(page.locator("#decoding-button")).to_have_text("Beam search 4")
    page.get_by_text("More options").click()
    expect(page.get_by_label("Decoder")).to_contain_text("Automatic")
    page.get_by_text("Reset to the run's configuration").click()
    expect(page.locator("#decoding-button")).to_have_text("Greedy")


def test_copy_and_download(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    reply = send(page, QUESTION).locator(".message-text").inner_text()

    def choose(item: str) -> None:
        page.locator("#menu").click()
        page.locator(item).click()

    choose("#copy")
    expect(page.locator("#note")).to_contain_text("clipboard")
    text = page.evaluate("() => navigator.clipboard.readText()")
    assert text == f"you: {QUESTION}\nbot: {reply}\n" == download(page, lambda: choose("#download-text"))
    expected = f"# {QUESTION}\n\n**You**\n\n> {QUESTION}\n\n**tiny · latest, step 20 · greedy**\n\n> {reply}\n\n"
    assert download(page, lambda: choose("#download-markdown")) == expected
    (turn,) = json.loads(download(page, lambda: choose("#download-json")))["conversations"][0]["turns"]
    (model,) = turn["replies"]
    assert (turn["text"], model["answer"]["reply"], model["run"]) == (QUESTION, reply, "tiny")


def test_a_busy_server_is_retried(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    requests: list[Any] = []

    def reject_first(route: Any) -> None:
        requests.append(route)
        if len(requests) == 1:
            route.fulfill(status=503, json={"error": "This model is busy."}, headers={"Retry-After": "1"})
        else:
            route.continue_()

    page.route("**/api/chat/stream", reject_first)
    expect(send(page, QUESTION).locator(".message-text")).not_to_be_empty()
    assert len(requests) == 2


def test_compare(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, "/compare?run=tiny")
    page.get_by_role("button", name="Add all snapshots").click()
    page.locator("#run").select_option("other")
    expect(page.locator("#snapshot option")).to_have_count(4)
    page.get_by_role("button", name="Add column").click()
    expect(page.locator(".lane-head h2")).to_have_text(["step 10", "step 20", "latest"])
    submit(page, QUESTION)
    expect(page.locator(".lane .message-text")).to_have_count(3, timeout=REPLY_TIMEOUT)
    replies = page.locator(".lane .message-text").all_inner_texts()
    assert replies[1] == replies[2]  # the same weights
    expect(page.locator(".lane").nth(0).locator(".meta")).to_contain_text("step 10")
    page.get_by_label("Remove column tiny, 10").click()
    expect(page.locator(".lane .message-text")).to_have_text(replies[1:])
    reload(page)
    expect(page.locator(".lane .message-text")).to_have_text(replies[1:])


def test_table_of_runs_and_page_of_a_run(page: Any, shared_server: str, expect: Any) -> None:
    page.goto(f"{shared_server}/runs")
    expect(page.locator("#runs tbody tr")).to_have_count(2)
    row = page.locator("#runs tbody tr", has_text="tiny")
    expect(row.locator(".state")).to_have_text("finished")
    expect(row.locator(".step")).to_contain_text("20 of 20")
    row.get_by_role("link", name="tiny", exact=True).click()
    expect(page.locator("h1")).to_have_text("tiny")
    legend = [re.compile(label) for label in ("step", "train", "valid")]
    expect(page.locator(".u-legend .u-series")).to_have_text(legend)
    expect(page.locator(".curves-caption")).to_contain_text("at step 20")
    expect(page.locator(".sample").first.locator("li")).to_have_count(2)
    page.get_by_text("training", exact=True).last.click()
    expect(page.locator(".config")).to_contain_text("learning_rate")
    page.get_by_role("link", name="Chat", exact=True).last.click()
    expect(page.locator("#run")).to_have_value("tiny")


def test_a_message_does_not_wait_for_the_settings_of_its_run(page: Any, shared_server: str, expect: Any) -> None:
    page.goto(f"{shared_server}/?run=deleted")
    expect(page.locator("#note")).to_contain_text("There is no run “deleted”")
    held = hold(page, "**/api/runs/tiny")
    page.locator("#run").select_option("tiny")
    expect(send(page, QUESTION).locator(".message-text")).not_to_be_empty()
    for route in held:
        route.continue_()
    expect(page.locator("#decoding-button")).not_to_contain_text("–")
    assert held


def test_the_server_restarts_during_a_conversation(page: Any, serve: Serve, results: Path, expect: Any) -> None:
    with serve(results) as address:
        port = int(address.rsplit(":", 1)[1])
        open_page(page, address)
        reply = send(page, QUESTION).locator(".message-text").inner_text()
    error = send(page, QUESTION)
    expect(error).to_contain_text("does not respond")
    for _ in range(2):  # start → stop → start
        with serve(results, port=port) as address:
            page.get_by_role("button", name="Try again").click()
            expect(page.locator("#send")).to_be_visible(timeout=REPLY_TIMEOUT)
            again = page.locator(".message.model").last.locator(".message-text")
            expect(again).to_have_text(reply, timeout=REPLY_TIMEOUT)
            expect(page.locator(".error")).to_have_count(0, timeout=REPLY_TIMEOUT)
        expect(send(page, QUESTION)).to_contain_text("does not respond")


HOSTILE = {
    "markup": "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "right to left": "\u202egnorw si siht\u202c שלום עולם",
    "emoji": "👩‍👩‍👧 😀 you see ?",
    "combining": "e" + "\u0301" * 500,
    "control": "you\x00see\x1b[31m\x07\ufffe",
    "template": "{{ 7 * 7 }} ${7*7} %s",
    "one long word": "a" * 5000,
}


def test_hostile_input_is_shown_harmlessly(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    for kind, text in HOSTILE.items():
        send(page, text)
        shown = page.locator(".message.you .message-text").last
        assert shown.evaluate("node => node.childElementCount") == 0, kind
        assert shown.evaluate("node => node.textContent") == text.strip(), kind
        assert not page.evaluate("() => document.documentElement.scrollWidth > innerWidth"), kind
        expect(page.locator("#log img, #log script")).to_have_count(0)
    page.emulate_media(media="print")
    assert page.locator("#scroll").evaluate("node => node.getBoundingClientRect().height > innerHeight")


def test_a_message_of_100_000_characters(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    page.locator("#text").fill("you see " * 12_500)
    expect(page.locator("#count")).to_contain_text("of 10,000 characters")
    page.keyboard.press("Enter")
    expect(page.locator("#count")).to_contain_text("shorten the text")
    page.locator("#text").fill("you see " * 1250)
    page.keyboard.press("Enter")
    expect(page.locator(".message.model")).to_have_count(1, timeout=REPLY_TIMEOUT)
    assert page.locator(".message.you .message-text").bounding_box()["height"] < 400


def test_hostile_names_and_texts_of_runs(page: Any, serve: Serve, results: Path, expect: Any) -> None:
    name = "<img src=x onerror=alert(1)> & \u202e'\"#?%41"
    (results / "tiny").rename(results / name)
    line = {"step": 30, "source": "<b>bold</b>", "reply": "<script>alert(1)</script>", "target": "</td>"}
    (results / name / "samples.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    end = {"state": "failed", "step": 30, "reason": "<i>why</i>"}
    (results / name / "end.json").write_text(json.dumps(end), encoding="utf-8")
    with serve(results) as address:
        page.goto(f"{address}/runs")
        page.locator("#runs tbody a").first.click()
        expect(page.locator("h1")).to_have_text(name)
        expect(page.locator(".sample-source")).to_have_text("<b>bold</b>")
        expect(page.locator("#facts .reason")).to_have_text("<i>why</i>")
        page.get_by_role("link", name="Chat", exact=True).last.click()
        page.locator("#snapshot option").first.wait_for(state="attached")
        expect(page.locator("#run")).to_have_value(name)
        expect(send(page, QUESTION).locator(".message-text")).not_to_be_empty()
        expect(page.locator("img[src=x]")).to_have_count(0)


def test_the_token_is_requested_once(page: Any, serve: Serve, results: Path, expect: Any) -> None:
    with serve(results, token="open-sesame") as address:
        page.goto(address)
        page.locator("#token-field").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#token-error")).to_be_visible()
        expect(page.locator("#token-error")).not_to_be_empty()
        page.locator("#token-field").fill("open-sesame\u200b")  # as copied from a chat
        page.keyboard.press("Enter")
        page.locator("#snapshot option").first.wait_for(state="attached")
        expect(send(page, QUESTION).locator(".message-text")).not_to_be_empty()
        page.goto(f"{address}/runs")
        expect(page.locator("#runs tbody tr")).to_have_count(1)
        assert "sesame" not in page.url
        assert page.context.cookies() == []
        other = open_page(page.context.new_page(), address)  # another tab, which waits for the runs
        expect(other.locator("#token-dialog")).to_be_hidden()
        with page.context.browser.new_context() as elsewhere:
            linked = open_page(elsewhere.new_page(), address, "/#token=open-sesame")
            assert linked.url == f"{address}/"


def test_hints_without_runs(page: Any, serve: Serve, tmp_path: Path, expect: Any) -> None:
    with serve(tmp_path) as address:
        page.goto(address)
        expect(page.locator("#note")).to_contain_text("seq2seq-chat train")
        page.goto(f"{address}/runs")
        expect(page.locator("#empty")).to_contain_text("seq2seq-chat train")


def test_keyboard(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    focused = "() => document.activeElement.id || document.activeElement.textContent.trim()"
    page.locator("#run").focus()
    focus_order = []
    for _ in range(11):
        page.keyboard.press("Tab")
        focus_order.append(page.evaluate(focused))
    assert focus_order[:4] == ["snapshot", "decoding-button", "menu", "scroll"]
    assert {"text", "send"} <= set(focus_order)
    page.locator("#decoding-button").focus()
    page.keyboard.press("Enter")
    page.locator("#decoding.show:not(.showing)").wait_for()
    page.locator("#method-greedy").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#method-beam")).to_be_focused()
    expect(page.locator("#decoding-button")).to_contain_text("Beam search")
    page.keyboard.press("Escape")
    page.locator("#decoding").wait_for(state="hidden")
    expect(page.locator("#decoding-button")).to_be_focused()
    message = send(page, QUESTION)
    message.locator("summary").first.focus()
    page.keyboard.press("Enter")
    expect(message.locator(".map")).to_be_visible()


PATHS = ["/translate", "/write", "/compare", "/judge", "/judge/x", "/search", "/talk", "/runs", "/runs/tiny"]


@pytest.mark.parametrize(
    ("width", "colors"),
    [
        *((320, "light"), (1100, "dark"), (3840, "light")),
        *(pytest.param(*view, marks=pytest.mark.nightly) for view in ((320, "dark"), (1100, "light"), (3840, "dark"))),
    ],
)
def test_every_page_is_accessible_and_fits(page: Any, shared_server: str, colors: str, width: int) -> None:
    set_view(page, width, colors)
    problems = {}

    def check(state: str) -> None:
        problems[state] = problems_of(page)
        for control in page.locator("main button:visible, main select:visible").all():
            box = control.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= width + 1, state

    open_page(page, shared_server)
    check("an empty chat")
    choose_beam(page)
    explanation(send(page, "you see the zebra and the tree1 ?")).wait_for()
    check("a reply, explained")
    page.locator("#decoding-button").click()
    page.locator("#decoding.show:not(.showing)").wait_for()
    problems["settings"] = problems_of(page)
    for path in PATHS:
        open_any_page(page, shared_server, path)
        check(path)
    assert not any(problems.values()), problems


def test_three_places_fit_on_a_phone(page: Any, shared_server: str, expect: Any) -> None:
    page.set_viewport_size({"width": 320, "height": 740})
    open_any_page(page, shared_server, "/talk")
    expect(page.locator(".links").first.locator("a")).to_have_text(["Talk to it", "Compare", "Runs"])
    expect(page.locator("[aria-current=true]")).to_have_text("Compare")
    for link in page.locator(".links a").all():
        expect(link).to_be_in_viewport(ratio=1)
    page.get_by_role("link", name="Judge").click()
    expect(page.locator("[aria-current=page]")).to_have_text("Judge")


def test_dark_and_light_mode(page: Any, shared_server: str, expect: Any) -> None:
    page.emulate_media(color_scheme="light")
    open_page(page, shared_server)
    color = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(color)
    page.locator("#theme").click()
    assert page.evaluate(color) != light
    expect(page.locator("#theme")).to_have_attribute("aria-pressed", "true")
    page.reload()
    assert page.evaluate(color) != light


def test_snapshots_are_named_by_their_steps(page: Any, shared_server: str) -> None:
    page.goto(f"{shared_server}/runs")
    script = """async (names) => {
        const { snapshotLabel } = await import("/static/js/run_picker.js");
        return names.map((name) => snapshotLabel(name));
    }"""
    labels = page.evaluate(script, ["150", "2k", "2.3M", "best"])
    assert labels == ["step 150", "step 2,000", "step 2,300,000", "best"]
