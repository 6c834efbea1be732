"""The page on which a search is watched: the tree, reasons, forced words, the slider, links, keyboard, phone, axe."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.webui.conftest import REPLY_TIMEOUT, open_page, serving

QUESTION = "you see the tree1 ?"
PATH = "/search?run=tiny"


@pytest.fixture(scope="module")
def server(shared_results: Any) -> Iterator[str]:
    with serving(shared_results) as address:
        yield address


def search(page: Any, text: str = QUESTION) -> list[Any]:
    """Search on an open page; the lines of the response, once the ranking is shown."""
    page.locator("#text").fill(text)
    return searched(page, lambda: page.keyboard.press("Enter"))


def searched(page: Any, action: Any) -> list[Any]:
    """Do what starts a search; the lines of the answer to the same request, once the search is shown completely."""
    with page.expect_request("**/api/search") as request:
        action()
    page.locator("#stop").wait_for(state="hidden", timeout=REPLY_TIMEOUT)
    page.locator("#ranking tbody tr").first.wait_for()
    again = page.request.post(request.value.url, data=request.value.post_data_json)
    return [json.loads(line) for line in again.text().splitlines()]


def set_width(page: Any, width: int) -> Any:
    slider = page.get_by_label("Beam width")
    return searched(page, lambda: slider.fill(str(width)))


@pytest.mark.slow
def test_the_tree_shows_the_beam_of_each_step(page: Any, server: str, expect: Any) -> None:
    open_page(page, server, PATH)
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


@pytest.mark.slow
def test_reasons_and_attention_follow_the_cursor(page: Any, server: str, expect: Any) -> None:
    open_page(page, server, PATH)
    page.get_by_label("Beam width").fill("2")
    _, *steps, _ = search(page)
    expansions = [(t, expansion) for t, step in enumerate(steps) for expansion in step["expansions"]]
    pruned = [
        (t, expansion["attention"], one)
        for t, expansion in expansions
        for one in expansion["candidates"]
        if one["fate"] == "outranked" and one["probability"] >= 0.1
    ]
    t, attention, leaf = pruned[0]
    ranks = {one["node"]: one["rank"] for _, expansion in expansions for one in expansion["candidates"]}
    worst = ranks[steps[t]["beam"][-1]]
    reason = f"Pruned at step {t + 1}: its rank {leaf['rank']:.2f} is below {worst:.2f}, the last of 2 that were kept"
    page.get_by_title(reason.replace("-", "−")).first.hover()
    expect(page.locator("#caption")).to_contain_text(f"“{leaf['word']}”: {100 * leaf['probability']:.0f} %")
    expect(page.locator("#caption")).to_contain_text(reason.replace("-", "−"))
    shade = "all => all.map((one) => Number(one.style.getPropertyValue('--weight')))"
    assert page.locator(".source-token").evaluate_all(shade) == pytest.approx(attention, abs=1e-3)
    page.locator(".tree-word.best").last.focus()
    expect(page.locator("#caption")).to_contain_text("best of 2 hypotheses")


@pytest.mark.slow
def test_a_word_is_forced_and_the_search_goes_on(page: Any, server: str, expect: Any) -> None:
    open_page(page, server, PATH)
    lines = search(page)
    word = page.locator(".tree-word.best").nth(2)
    word.click()
    rows = page.locator("#alternatives tbody tr")
    expect(rows).to_have_count(10)
    expect(page.locator("#alternatives .chosen")).to_have_count(1)
    probabilities = [one["probability"] for one in lines[2]["expansions"][0]["candidates"]][:10]
    assert probabilities == sorted(probabilities, reverse=True)
    forced = rows.nth(4).locator("th").inner_text()
    body = searched(page, lambda: rows.nth(4).get_by_role("button", name="Force").click())
    (kept,) = [one for one in body[2]["expansions"][0]["candidates"] if one["node"]]
    assert kept["word"] == {"end": "<eos>"}.get(forced, forced)
    expect(page.locator(".forced-word")).to_have_count(2)
    expect(page.locator(".tree-word.forced")).to_have_count(2)
    page.reload()
    page.locator("#ranking tbody tr").first.wait_for(timeout=REPLY_TIMEOUT)
    expect(page.locator(".forced-word")).to_have_count(2)
    searched(page, lambda: page.get_by_role("button", name="Clear").click())
    expect(page.locator("#forced")).to_be_hidden()


@pytest.mark.slow
def test_the_slider_searches_again_and_shows_what_changes(page: Any, server: str, expect: Any) -> None:
    open_page(page, server, PATH)
    page.get_by_label("Beam width").fill("2")
    narrow = [one["text"] for one in search(page)[-1]["ranking"]]
    expect(page.locator(".change")).to_have_count(0)
    wide = [one["text"] for one in set_width(page, 6)[-1]["ranking"]]
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
    best = ranking[0]
    assert numbers == [f"{best[name]:.2f}".replace("-", "−") for name in ("score", "divisor", "rank")]


@pytest.mark.smoke
def test_the_ranking_of_a_search_does_not_describe_words_of_the_next(page: Any, server: str, expect: Any) -> None:
    open_page(page, server, PATH)
    first_lines = "".join(f"{json.dumps(line)}\n" for line in search(page)[:2])
    page.route("**/api/search", lambda route: route.fulfill(body=first_lines, content_type="application/x-ndjson"))
    page.locator("#send").click()
    expect(page.locator("#ranking")).to_be_hidden()
    page.locator("#ranking tbody tr").first.dispatch_event("pointerenter")
    expect(page.locator("#caption")).to_contain_text("Point at a word")


@pytest.mark.slow
def test_stop(page: Any, server: str, expect: Any) -> None:
    open_page(page, server, PATH)
    held: list[Any] = []
    page.route("**/api/search", lambda route: held.append(route))  # noqa: PLW0108  never answered
    page.locator("#text").fill(QUESTION)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#stop")).to_be_hidden()
    expect(page.get_by_role("button", name="Search")).to_be_focused()
    page.unroute("**/api/search")
    search(page)


@pytest.mark.slow
def test_keyboard(page: Any, server: str, expect: Any) -> None:
    open_page(page, server, PATH)
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


@pytest.mark.parametrize("width", [320, pytest.param(2560, marks=pytest.mark.slow)])
def test_the_page_fits(page: Any, server: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    open_page(page, server, PATH)
    search(page)
    page.locator(".tree-word.best").last.click()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


@pytest.mark.slow
@pytest.mark.parametrize(("width", "colors"), [(360, "dark"), (1100, "light"), (1100, "dark")])
def test_axe_finds_no_violations(page: Any, server: str, width: int, colors: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=colors, reduced_motion="reduce")
    open_page(page, server, PATH)
    page.get_by_label("No repeated n-grams of").fill("1")
    search(page)
    page.locator(".tree-word.leaf").first.click()
    results = Axe().run(page).response
    assert len(results["passes"]) > 10
    assert not results["violations"], [(one["id"], one["nodes"][0]["html"][:200]) for one in results["violations"]]


@pytest.mark.slow
def test_a_reply_links_to_its_search(page: Any, server: str, expect: Any) -> None:
    open_page(page, server, "/?run=tiny")
    page.locator("#text").fill(QUESTION)
    page.keyboard.press("Enter")
    reply = page.locator(".from-model .message-text")
    reply.wait_for(timeout=REPLY_TIMEOUT)
    text = reply.inner_text()
    page.locator(".why-box summary").click()
    page.get_by_role("link", name="Watch the search").click()
    expect(page.locator("#ranking .hypothesis").first).to_have_text(text)
    expect(page.get_by_label("Beam width")).to_have_value("1")  # a greedy reply
