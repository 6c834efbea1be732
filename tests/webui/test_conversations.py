"""Conversations in a browser: versions, links, files, and what is kept; runs that come, go and train."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.runs.run import Run
from tests.conftest import edit_config
from tests.webui.conftest import (
    Serve,
    choose_beam,
    download,
    fulfill_reply,
    hold,
    open_page,
    problems_of,
    reload,
    set_decoding,
    submit,
    wait_until_kept,
)
from tests.webui.test_browser import QUESTION, explanation, send

ANSWER = {
    **{"alternatives": [], "unknown_words": [], "attention": [], "source_words": ["x"], "reply_words": ["x"]},
    **{"seconds": 0.01, "run": "tiny", "step": 20, "seed": None, "warnings": []},
}


def echo(page: Any) -> list[Any]:
    """Let the server reply in capitals, with the number of the request; the requests."""
    requests: list[Any] = []

    def reply(route: Any) -> None:
        requests.append(route.request.post_data_json)
        fulfill_reply(route, ANSWER | {"reply": f"{requests[-1]['text'].upper()} {len(requests)}"})

    page.route("**/api/chat**", reply)
    return requests


def texts(page: Any) -> list[str]:
    """All messages, in their order on the page."""
    found: list[str] = page.locator("#log .message-text").all_inner_texts()
    return found


def test_the_history_after_stop_and_after_a_late_retry(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    requests = echo(page)
    send(page, "a")
    page.unroute("**/api/chat**")
    page.route("**/api/chat**", lambda route: route.abort())
    send(page, "b").get_by_text("does not respond").wait_for()
    page.unroute("**/api/chat**")
    hold(page, "**/api/chat**")
    submit(page, "c")
    expect(page.locator(".typing")).to_contain_text("is typing")
    expect(page.locator(".typing")).to_contain_text("Waiting for the model …")
    page.locator("#stop").click()
    expect(page.locator(".stopped")).to_be_visible()
    expect(page.locator(".typing")).to_have_count(0)
    page.unroute("**/api/chat**")
    requests = echo(page)
    send(page, "d")
    assert requests[-1]["history"] == ["a", "A 1"]
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".error")).to_have_count(0)
    assert requests[-1]["history"] == ["a", "A 1"]
    send(page, "e")
    assert requests[-1]["history"] == ["a", "A 1", "b", "B 2", "d", "D 1"]
    assert texts(page) == ["a", "A 1", "b", "B 2", "c", "d", "D 1", "e", "E 3"]


def test_a_message_is_edited_and_both_versions_are_kept(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    requests = echo(page)
    for text in ("a", "b", "c"):
        send(page, text)
    page.get_by_role("button", name="Edit").nth(1).click()
    editor = page.get_by_label("Edit your message")
    expect(editor).to_be_focused()
    editor.fill("B!")
    page.keyboard.press("Enter")
    expect(page.locator(".message.model").last).to_contain_text("B! 4")
    assert requests[-1]["history"] == ["a", "A 1"]
    send(page, "d")
    assert requests[-1]["history"] == ["a", "A 1", "B!", "B! 4"]
    page.get_by_label("Previous version of the message").click()
    assert texts(page) == ["a", "A 1", "b", "B 2", "c", "C 3"]
    reload(page)
    expect(page.locator(".message.model")).to_have_count(3)
    assert texts(page) == ["a", "A 1", "b", "B 2", "c", "C 3"]
    page.get_by_label("Next version of the message").click()
    assert texts(page) == ["a", "A 1", "B!", "B! 4", "d", "D 5"]


def test_other_replies_are_samples_and_all_are_kept(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    requests = echo(page)
    send(page, "a")
    send(page, "b")
    page.get_by_role("button", name="Another reply").first.click()
    expect(page.locator(".message.model")).to_have_count(1)
    expect(page.locator(".message.model")).to_contain_text("A 3")
    assert [request["decoding"]["method"] for request in requests] == ["greedy", "greedy", "sample"]
    assert requests[-1]["history"] == []
    page.get_by_label("Previous version of the reply").click()
    assert texts(page) == ["a", "A 1", "b", "B 2"]
    for number in (4, 5):
        page.get_by_role("button", name="Another reply").first.click()
        expect(page.locator(".message.model").first).to_contain_text(f"A {number}")
    assert [request["decoding"]["method"] for request in requests[3:]] == ["sample", "sample"]
    page.unroute("**/api/chat**")
    page.route("**/api/chat**", lambda route: fulfill_reply(route, ANSWER | {"reply": "A 3"}))
    page.get_by_role("button", name="Another reply").click()
    expect(page.locator("#note")).to_have_text("The same words as in reply 2.")
    page.unroute("**/api/chat**")
    others = echo(page)
    choose_beam(page)
    for number in (1, 2, 3):
        page.get_by_role("button", name="Another reply").first.click()
        expect(page.locator(".message.model").first).to_contain_text(f"A {number}")
    assert [request["decoding"]["method"] for request in others] == ["beam", "sample", "sample"]


def test_two_tabs_keep_the_messages_of_both(page: Any, shared_server: str, expect: Any) -> None:
    """A new tab opens the last conversation; each then knows messages that the other does not show."""
    open_page(page, shared_server)
    echo(page)
    send(page, "a")
    wait_until_kept(page)
    other = page.context.new_page()
    open_page(other, shared_server)
    echo(other)
    shown = other.locator("#log .message-text")
    expect(shown).to_have_text(["a", "A 1"])
    send(page, "b")
    wait_until_kept(page)
    send(other, "c")
    reload(other)
    expect(shown).to_have_text(["a", "A 1", "c", "C 1"])
    other.get_by_label("Previous version of the message").click()  # it was written earlier
    expect(shown).to_have_text(["a", "A 1", "b", "B 2"])
    page.locator("#menu").click()
    page.get_by_role("button", name="All conversations").click()
    page.get_by_label("Delete a").click()
    expect(page.locator("#kept-note")).to_contain_text("was deleted")
    send(other, "d")
    expect(other.locator("#note")).to_have_text("This was deleted in another tab; now it is kept again.")
    reload(other)
    expect(shown).to_have_text(["a", "A 1", "b", "B 2", "d", "D 2"])


def test_a_link_shows_the_same_reply_or_says_why_not(page: Any, serve: Serve, results: Path, expect: Any) -> None:
    with serve(results) as address:
        open_page(page, address)
        set_decoding(page, "Sampling", {"Temperature": 5})
        reply = send(page, QUESTION).locator(".message-text").inner_text()
        page.get_by_role("button", name="Link").click()
        link = page.locator("#note a").get_attribute("href")
        page.goto(link)  # pasted into the address of the open conversation
        expect(page.locator(".linked")).to_have_text("The same reply as when the link was made.")
        other = page.context.browser.new_context().new_page()
        other.set_default_timeout(60_000)
        other.goto(link)
        expect(other.locator(".message.model .message-text")).to_have_text(reply)
        expect(other.locator(".linked")).to_have_text("The same reply as when the link was made.")
        for cut, message in ((link[:-9], "This link is incomplete. Copy it again."), (address, "")):
            new = other.context.new_page()
            new.goto(cut)
            expect(new.locator("#note")).to_have_text(message)
            assert "sample" not in new.evaluate("JSON.stringify(localStorage)")  # the link's method is its own
        (results / "tiny" / "checkpoints" / "0000000020.npz").unlink()
        shutil.rmtree(results / "tiny" / "snapshots" / "20")
        other.goto("about:blank")
        other.goto(link)
        error = other.locator(".error")
        expect(error.locator("p")).to_have_text(
            "The reply cannot be computed again: run tiny has no weights of step 20 any more; its newest are of step "
            f"15. When the link was made, it was: “{reply}”"
        )
        other.context.close()


def test_conversations_are_listed_renamed_deleted_and_imported(
    page: Any, shared_server: str, expect: Any, tmp_path: Path
) -> None:
    open_page(page, shared_server)
    echo(page)

    def menu(name: str) -> None:
        page.locator("#menu").click()
        page.get_by_role("button", name=name, exact=True).click()

    for text in ("first", "second"):
        send(page, text)
        menu("New conversation")
        expect(page.locator(".message")).to_have_count(0)
        expect(page.locator("#welcome")).to_be_visible()
    menu("All conversations")
    page.locator("#kept.show:not(.showing)").wait_for()
    page.keyboard.press("Escape")
    expect(page.locator("#text")).to_be_focused()
    menu("All conversations")
    titles = page.locator(".kept-title")
    expect(titles).to_have_text([re.compile("second"), re.compile("first")])
    page.get_by_label("Rename first").click()
    page.get_by_label("New name").fill("the <b>first</b>")
    page.keyboard.press("Enter")
    expect(titles).to_have_text([re.compile("second"), re.compile("the <b>first</b>")])
    page.get_by_label("Delete second").click()
    expect(titles).to_have_count(1)
    page.get_by_role("button", name="Undo").click()
    expect(titles).to_have_count(2)
    page.get_by_label("Delete second").click()
    titles.first.click()
    expect(page.locator(".message.model .message-text")).to_have_text("FIRST 1")
    page.locator("#kept").wait_for(state="hidden")
    exported = tmp_path / "exported.json"
    exported.write_text(download(page, lambda: menu("Download as JSON")), encoding="utf-8")
    (tmp_path / "wrong.json").write_text(json.dumps({"conversations": [{"turns": 1}]}))
    menu("All conversations")
    page.locator("#import").set_input_files([exported, tmp_path / "wrong.json"])
    note = "exported.json: 1 entry imported. wrong.json: This file contains no conversations."
    expect(page.locator("#kept-note")).to_contain_text(note)
    expect(titles).to_have_text([re.compile("the <b>first</b>")])  # it is the same
    titles.first.click()
    expect(page.locator(".message.model .message-text")).to_have_text("FIRST 1")


def test_the_page_finds_the_first_run_and_newer_weights(page: Any, serve: Serve, results: Path, expect: Any) -> None:
    """A page that was opened before the first run; then the run trains on, and the page names its new step."""
    run = results / "tiny"
    hidden = run.rename(results.parent / "tiny")
    with serve(results) as address:
        page.goto(address)
        expect(page.locator("#note")).to_contain_text("No runs yet")
        newest = (hidden / "checkpoints" / "0000000020.npz").rename(results.parent / "newest.npz")
        shutil.rmtree(hidden / "snapshots" / "20")
        hidden.rename(run)
        with Run(run).lock():
            snapshot = page.locator("#snapshot option").first
            expect(snapshot).to_have_text("latest (step 15)")
            expect(send(page, QUESTION).locator(".meta")).to_contain_text("tiny · latest, step 15 · greedy")
            newest.rename(run / "checkpoints" / "0000000020.npz")
            expect(snapshot).to_have_text("latest (step 20)")
            expect(send(page, QUESTION).locator(".meta")).to_contain_text("tiny · latest, step 20 · greedy")


def test_the_default_is_a_run_with_a_checkpoint(page: Any, serve: Serve, results: Path, expect: Any) -> None:
    newer = results / "zzz"
    shutil.copytree(results / "tiny", newer)
    edit_config(newer, "data", train="train.txt", validation=None, test=None, context_turns=3)
    for folder in ("checkpoints", "snapshots"):
        shutil.rmtree(newer / folder)
    with serve(results) as address:
        open_page(page, address)
        expect(page.locator("#run")).to_have_value("tiny")
        expect(page.locator("#run option", has_text="zzz")).to_have_text("zzz (no checkpoint yet)")
        expect(page.locator("#reads")).to_have_text("reads one message")
        page.locator("#run").select_option("zzz")
        expect(page.locator("#reads")).to_have_text("reads the last 3 messages")


def test_a_run_is_deleted_during_a_conversation(page: Any, serve: Serve, results: Path, expect: Any) -> None:
    shutil.copytree(results / "tiny", results / "other")
    with serve(results) as address:
        open_page(page, address, "/?run=tiny")
        send(page, QUESTION)
        shutil.rmtree(results / "tiny")
        expect(send(page, QUESTION)).to_contain_text("no run 'tiny'")
        expect(page.locator(".message.model")).to_have_count(1)  # the conversation is kept
        expect(page.locator("#run option:checked")).to_have_text("tiny (deleted)")
        expect(page.locator("#note")).to_contain_text("There is no run “tiny”")
        page.goto(f"{address}/runs/tiny")
        expect(page.locator("#note")).to_contain_text("no run")
        page.goto(f"{address}/?run=tiny")
        expect(page.locator("#run option:checked")).to_have_text("tiny (deleted)")
        page.locator("#run").select_option("other")
        expect(send(page, QUESTION).locator(".message-text")).not_to_be_empty()


@pytest.mark.parametrize("path", ["/", "/compare"])
def test_a_reload_keeps_the_selection(page: Any, shared_server: str, expect: Any, path: str) -> None:
    """Also with a run in the address."""
    open_page(page, shared_server, f"{path}?run=tiny")
    page.locator("#run").select_option("other")
    expect(page).to_have_url(re.compile("run=other"))
    page.locator("#snapshot").select_option("10")
    choose_beam(page)
    page.reload()
    page.locator("#snapshot option").first.wait_for(state="attached")
    expect(page.locator("#run")).to_have_value("other")
    expect(page.locator("#snapshot")).to_have_value("10")
    expect(page.locator("#decoding-button")).to_contain_text("Beam search")


def test_columns_have_their_own_decoding_settings(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, "/compare?run=tiny")
    requests = echo(page)
    page.get_by_role("button", name="Add column").click()
    choose_beam(page)
    page.get_by_role("button", name="Add column").click()
    settings = page.locator(".lane-head .action")
    expect(settings).to_have_text(["Greedy", re.compile("Beam search")])
    submit(page, "a")
    expect(page.locator(".lane .message-text")).to_have_count(2)
    assert sorted(request["decoding"]["method"] for request in requests) == ["beam", "greedy"]
    settings.first.click()
    expect(settings).to_have_text([re.compile("Beam search")] * 2)


def test_conversations_are_beside_the_current_one_on_wide_screens(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    echo(page)
    send(page, "first")
    page.set_viewport_size({"width": 1500, "height": 800})
    expect(page.locator(".kept-title")).to_have_text(re.compile("first"))
    expect(page.get_by_role("heading", name="Kept in this browser")).to_be_visible()
    page.get_by_role("button", name="New", exact=True).click()
    send(page, "second")
    titles = page.locator(".kept-title")
    expect(titles).to_have_text([re.compile("second"), re.compile("first")])
    expect(page.locator("[aria-current] .kept-title")).to_contain_text("second")
    assert not problems_of(page)
    titles.last.click()
    expect(page.locator("#log .message-text")).to_have_text(["first", "FIRST 1"])
    page.unroute("**/api/chat**")
    (held,) = [hold(page, "**/api/chat**")]
    submit(page, "third")
    expect(titles).to_have_text([re.compile("first"), re.compile("second")])  # it is the newest now
    page.get_by_label("Rename second").focus()
    page.keyboard.press("Enter")
    page.get_by_label("New name").fill("the second")
    fulfill_reply(held[0], ANSWER | {"reply": "THIRD 1"})
    expect(page.locator(".message.model")).to_have_count(2)
    wait_until_kept(page)
    page.keyboard.press("Enter")
    expect(titles).to_have_text([re.compile("first"), re.compile("the second")])
    expect(titles.last).to_be_focused()


def test_compare_keeps_what_is_open_and_can_be_stopped(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, "/compare?run=tiny")
    page.get_by_role("button", name="Add all snapshots").click()
    choose_beam(page)
    echo(page)
    submit(page, "a")
    expect(page.locator(".lane .message-text")).to_have_count(2)
    explanation(page.locator(".lane").first).wait_for()
    page.unroute("**/api/chat**")
    hold(page, "**/api/chat**")
    submit(page, "b")
    expect(page.locator(".typing")).to_have_count(2)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".lane .error")).to_have_text([re.compile("Stopped")] * 2)
    expect(page.locator(".lane").first.locator(".why-inner")).to_be_visible()
    page.unroute("**/api/chat**")
    echo(page)
    page.get_by_role("button", name="Try again").first.click()
    expect(page.locator(".lane .error")).to_have_count(1)
