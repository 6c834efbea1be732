"""The page on which a search is watched: the tree, reasons, forced words, the slider, links, keyboard, phone, axe."""

import json
import re
from typing import Any

import pytest

from tests.webui.conftest import REPLY_TIMEOUT, hold, open_page, problems_of, set_view, submit

QUESTION = "you see the tree1 ?"
PATH = "/search?run=tiny"
FRAMES = """(count) => new Promise((done) => {
    const next = () => { if (count--) requestAnimationFrame(next); else done(); };
    next();
})"""


def search(page: Any, text: str = QUESTION) -> list[Any]:
    """Search on an open page; the lines of the response, once the ranking is shown."""
    return searched(page, lambda: submit(page, text))


def searched(page: Any, action: Any) -> list[Any]:
    """Do what starts a search; the lines of the answer to the same request, once the search is shown completely."""
    with page.expect_request("**/api/search") as request:
        action()
    page.locator("#stop").wait_for(state="hidden", timeout=REPLY_TIMEOUT)
    page.locator("#ranking tbody tr").first.wait_for()
    again = page.request.post(request.value.url, data=request.value.post_data_json)
    return [json.loads(line) for line in again.text().splitlines()]


def test_the_tree_shows_the_beam_of_each_step(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, PATH)
    page.get_by_label("Beam width").fill("3")
    _, *steps, end = search(page)
    kept = [one for step in steps for expansion in step["expansions"] for one in expansion["candidates"] if one["node"]]
    expect(page.locator(".tree-word:not(.leaf):not(.root)")).to_have_count(len(kept))
    expect(page.locator("#ranking tbody tr")).to_have_count(len(end["ranking"]))
    expect(page.locator("#ranking .hypothesis")).to_have_text([one["text"] or "(empty)" for one in end["ranking"]])
    scores = [f"{one['score']:.2f}".replace("-", "−") for one in end["ranking"]]
    expect(page.locator("#ranking td.num:last-child")).to_have_text(scores)
    best = {one["node"]: one for one in kept}[end["ranking"][0]["node"]]
    last = page.locator(".tree-word.best[data-rank='1']")
    expect(last).to_contain_text("end" if best["word"] == "<eos>" else best["word"])
    page.get_by_label("Step").fill("1")
    expect(page.locator(".tree-word:not(.leaf):not(.root)")).to_have_count(len(steps[0]["beam"]))
    ranks = page.locator(".tree-word").evaluate_all("all => all.map((one) => one.dataset.rank).filter(Boolean)")
    assert sorted(ranks) == ["1", "2", "3"]


def test_reasons_and_attention_follow_the_cursor(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, PATH)
    page.get_by_label("Beam width").fill("2")
    _, *steps, _ = search(page)
    candidates = [
        (t, one, expansion["attention"])
        for t, step in enumerate(steps)
        for expansion in step["expansions"]
        for one in expansion["candidates"]
    ]
    pruned = (each for each in candidates if each[1]["fate"] == "outranked" and each[1]["probability"] >= 0.1)
    t, leaf, attention = next(pruned)
    (worst,) = [one["rank"] for _, one, _ in candidates if one["node"] == steps[t]["beam"][-1]]
    reason = f"Pruned at step {t + 1}: its rank {leaf['rank']:.2f} is below {worst:.2f}, the last of 2 that were kept"
    page.get_by_title(reason.replace("-", "−")).first.hover()
    expect(page.locator("#caption")).to_contain_text(f"“{leaf['word']}”: {100 * leaf['probability']:.0f} %")
    expect(page.locator("#caption")).to_contain_text(reason.replace("-", "−"))
    shade = "all => all.map((one) => Number(one.style.getPropertyValue('--weight')))"
    assert page.locator(".source-token").evaluate_all(shade) == pytest.approx(attention, abs=1e-3)
    page.locator(".tree-word.best").last.focus()
    expect(page.locator("#caption")).to_contain_text("best of 2 hypotheses")


def test_a_word_is_forced_and_the_search_goes_on(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, PATH)
    lines = search(page)
    word = page.locator(".tree-word.best").nth(2)
    word.click()
    rows = page.locator("#alternatives tbody tr")
    expect(rows).to_have_count(10)
    expect(page.locator("#alternatives .chosen")).to_have_count(1)
    probabilities = [one["probability"] for one in lines[2]["expansions"][0]["candidates"]][:10]
    assert probabilities == sorted(probabilities, reverse=True)
    forced = rows.nth(4).locator("th").inner_text()
    body = searched(page, lambda: rows.nth(4).get_by_role("button", name="Force").press("Enter"))
    expect(page.locator("#text")).to_be_focused()
    (kept,) = [one for one in body[2]["expansions"][0]["candidates"] if one["node"]]
    assert kept["word"] == {"end": "<eos>"}.get(forced, forced)
    expect(page.locator(".forced-word")).to_have_count(2)
    expect(page.locator(".tree-word.forced")).to_have_count(2)
    page.reload()
    page.locator("#ranking tbody tr").first.wait_for(timeout=REPLY_TIMEOUT)
    expect(page.locator(".forced-word")).to_have_count(2)
    searched(page, lambda: page.get_by_role("button", name="Clear").click())
    expect(page.locator("#forced")).to_be_hidden()
    page.go_back()
    expect(page.locator(".forced-word")).to_have_count(2)
    page.go_back()
    expect(page.locator("#ranking tbody tr").first).to_be_visible()
    expect(page.locator(".forced-word")).to_have_count(0)
    page.go_forward()
    expect(page.locator(".forced-word")).to_have_count(2)


def test_the_slider_searches_again_and_shows_what_changes(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, PATH)
    width = page.get_by_label("Beam width")
    width.fill("2")
    narrow = [one["text"] for one in search(page)[-1]["ranking"]]
    expect(page.locator(".change")).to_have_count(0)
    wide = [one["text"] for one in searched(page, lambda: width.fill("6"))[-1]["ranking"]]
    expected = [
        "new" if text not in narrow else f"was {narrow.index(text) + 1}"
        for rank, text in enumerate(wide)
        if narrow[rank : rank + 1] != [text]
    ]
    assert expected
    expect(page.locator(".change")).to_have_text(expected)
    page.get_by_label("Length penalty").fill("1")
    ranking = searched(page, lambda: page.keyboard.press("Tab"))[-1]["ranking"]
    numbers = page.locator("#ranking tbody tr").first.locator("td.num").all_inner_texts()[1:]
    assert numbers == [f"{ranking[0][name]:.2f}".replace("-", "−") for name in ("score", "divisor", "rank")]


@pytest.mark.smoke
def test_a_ranking_does_not_describe_words_of_the_next_search(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, PATH)
    first_lines = "".join(f"{json.dumps(line)}\n" for line in search(page)[:2])
    page.route("**/api/search", lambda route: route.fulfill(body=first_lines, content_type="application/x-ndjson"))
    page.locator("#send").click()
    expect(page.locator("#ranking")).to_be_hidden()
    page.locator("#ranking tbody tr").first.dispatch_event("pointerenter")
    expect(page.locator("#caption")).to_contain_text("Point at a word")
    expect(page.locator("#note")).to_contain_text("The connection was lost")


def test_an_aborted_search_is_not_shown_again(page: Any, shared_server: str, expect: Any) -> None:
    """Its lines may have arrived already; a text that cannot be read has no steps."""
    open_page(page, shared_server, PATH)
    page.get_by_label("Beam width").fill("1")
    short = search(page)
    start, *steps, _ = search(page, "i like the song3 ?")
    long = [start, steps[0], *[steps[0] | {"expansions": []}] * 60]
    bodies = ["".join(f"{json.dumps(line)}\n" for line in lines) for lines in (long, short)]
    page.route("**/api/search", lambda route: route.fulfill(body=bodies.pop(0)))
    page.locator("#send").click()
    page.get_by_label("Minimum length").fill("1")
    page.keyboard.press("Tab")
    expect(page.locator("#step_value")).to_have_text(f"{len(short) - 2} of {len(short) - 2}")
    page.evaluate(FRAMES, len(long))  # in each of them, the other would draw a line
    expect(page.locator("#step_value")).to_have_text(f"{len(short) - 2} of {len(short) - 2}", timeout=1)
    page.locator(".tree-word").last.click()
    page.locator("#step").fill("1")
    expect(page.locator(".tree-word[tabindex='0']")).to_have_count(1)
    page.unroute("**/api/search")
    submit(page, "שלום")
    expect(page.locator("#note")).to_have_text("The model cannot read any of this text.")
    page.get_by_role("button", name="Replay").click()
    expect(page.locator("#step_value")).to_have_text("0 of 0")


def test_stop(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, PATH)
    hold(page, "**/api/search")
    submit(page, QUESTION)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#stop")).to_be_hidden()
    expect(page.get_by_role("button", name="Search")).to_be_focused()
    page.unroute("**/api/search")
    search(page)


def test_keyboard(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, PATH)
    search(page)
    page.locator("#tree").focus()
    page.keyboard.press("Tab")
    assert page.locator(".tree-word[tabindex='0']").count() == 1
    page.keyboard.press("Home")
    expect(page.locator(".tree-word.root")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tree-word.best").nth(1)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#caption")).to_contain_text(re.compile("step 1|hypotheses"))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("End")
    expect(page.locator("[data-rank='1']")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#alternatives tbody tr")).to_have_count(10)


@pytest.mark.parametrize(("width", "colors"), [(320, "dark"), (1100, "light"), (2560, "light")])
def test_the_page_is_accessible_and_fits(page: Any, shared_server: str, width: int, colors: str) -> None:
    set_view(page, width, colors)
    open_page(page, shared_server, PATH)
    page.get_by_label("No repeated n-grams of").fill("1")
    search(page)
    page.locator(".tree-word.leaf").first.click()
    assert not problems_of(page)


def test_a_reply_links_to_its_search(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, "/?run=tiny")
    submit(page, QUESTION)
    reply = page.locator(".from-model .message-text")
    reply.wait_for(timeout=REPLY_TIMEOUT)
    text = reply.inner_text()
    page.locator(".why-box summary").click()
    expect(page.locator(".turn-actions").get_by_role("link", name="Watch the search")).to_be_visible()
    page.locator(".why-inner").get_by_role("link", name="Watch the search").click()
    expect(page.locator("#ranking .hypothesis").first).to_have_text(text)
    expect(page.get_by_label("Beam width")).to_have_value("1")  # a greedy reply
