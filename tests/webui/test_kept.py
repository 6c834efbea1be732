"""What the browser keeps: addresses and Back, two tabs, search, download, import and deletion of everything."""

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.webui.conftest import download, hold, import_download, open_page, reload, submit, wait_until_kept
from tests.webui.test_browser import send
from tests.webui.test_conversations import ANSWER, echo, texts

ID = "[0-9a-f]{24}"


def compared(page: Any, server: str) -> Any:
    """Compare the answers of a column to a text; the texts that are shown."""
    open_page(page, server, "/compare")
    page.get_by_role("button", name="Add column").click()
    submit(page, "apples")
    page.locator(".lane .message-text").wait_for()
    wait_until_kept(page)
    return page.locator("#lanes .message-text")


def talked(page: Any, server: str) -> None:
    """Let a model talk with itself."""
    open_page(page, server, "/talk")
    page.locator("#text").fill("bananas")
    page.get_by_role("button", name="Talk", exact=True).click()
    page.locator("#actions").wait_for()


@pytest.mark.smoke
def test_addresses_name_what_is_shown(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    echo(page)
    send(page, "a")
    wait_until_kept(page)
    first = page.url
    assert re.fullmatch(f"{shared_server}/chat/{ID}", first)
    page.locator("#menu").click()
    page.locator("#new").click()
    expect(page).to_have_url(f"{shared_server}/")
    send(page, "b")
    wait_until_kept(page)
    assert page.url != first
    page.go_back()
    expect(page.locator("#log .message-text")).to_have_text(["a", "A 1"])
    page.go_forward()
    expect(page.locator("#log .message-text")).to_have_text(["b", "B 2"])
    other = page.context.new_page()
    other.goto(first)
    expect(other.locator("#log .message-text")).to_have_text(["a", "A 1"])
    other.goto(f"{shared_server}/chat/{'0' * 24}")
    expect(other.locator("#note")).to_contain_text("Nothing is kept under this address")


def test_what_is_done_before_the_runs_are_known_lasts(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    echo(page)
    send(page, "a")
    wait_until_kept(page)
    address = page.url
    other = page.context.new_page()
    held = hold(other, "**/api/runs")
    with other.expect_request("**/api/runs"):
        other.goto(address)
    expect(other.locator("#log .message-text")).to_have_text(["a", "A 1"])
    other.locator("#menu").click()
    other.locator("#new").click()
    expect(other).to_have_url(f"{shared_server}/")
    for route in held:
        route.continue_()
    expect(other.locator("#run option")).not_to_have_count(0)
    expect(other.locator("#send")).to_be_enabled()
    assert texts(other) == []


def test_two_tabs_with_a_comparison_keep_the_turns_of_both(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    echo(page)
    shown = compared(page, shared_server)
    other = page.context.new_page()
    open_page(other, shared_server, "/compare")
    expect(other.locator("#lanes .message-text")).to_have_text(["apples", "APPLES 1"])
    echo(other)
    other.locator("#snapshot").select_option("best")
    other.get_by_role("button", name="Add column").click()
    for tab, text, replies in ((page, "pears", 2), (other, "plums", 3), (page, "grapes", 3)):
        submit(tab, text)
        expect(tab.locator(".lane .message-text")).to_have_count(replies)
        wait_until_kept(tab)
    reload(page)
    expect(page.locator(".lane-head")).to_have_count(2)
    expect(shown).to_have_text(
        ["apples", "APPLES 1", "pears", "PEARS 2", "plums", "PLUMS 2", "PLUMS 1", "grapes", "GRAPES 3"]
    )


def test_everything_is_found_downloaded_deleted_and_imported(
    page: Any, shared_server: str, tmp_path: Path, expect: Any
) -> None:
    page.set_viewport_size({"width": 1500, "height": 800})
    open_page(page, shared_server)
    echo(page)
    send(page, "cherries")
    wait_until_kept(page)
    compared(page, shared_server)
    talked(page, shared_server)
    titles = page.locator(".kept-title")
    expect(titles).to_have_text([re.compile("^bananas.*two models"), re.compile("^apples"), re.compile("^cherries")])
    page.get_by_label("Rename apples").focus()
    page.keyboard.press("Enter")
    page.get_by_label("New name").fill("fruit")
    page.keyboard.press("Enter")
    expect(titles.nth(1)).to_have_text(re.compile("^fruit"))
    open_page(page, shared_server, "/compare")
    submit(page, "pears")
    expect(titles.first).to_have_text(re.compile("^fruitcomparison"))  # it was changed last, and has its name
    kept = download(page, page.get_by_role("button", name="Download everything").click)
    page.get_by_label("Search everything that is kept").fill("CHERRIES 1")  # a reply
    expect(titles).to_have_count(1)
    titles.click()
    expect(page).to_have_url(re.compile(f"/chat/{ID}"))
    expect(page.locator("#log .message-text")).to_have_text(["cherries", "CHERRIES 1"])
    for action in ("Delete cherries", "Undo"):
        page.get_by_role("button", name=action).focus()
        page.keyboard.press("Enter")
        expect(page.locator("#log .message-text")).to_have_count(2 * (action == "Undo"))
    expect(titles.last).to_be_focused()
    page.get_by_role("button", name="Delete everything").click()
    expect(page.locator("#kept-note")).to_contain_text("Everything was deleted.")
    expect(page.locator("#log .message-text")).to_have_count(0)
    reload(page)
    expect(page.locator("#kept-none")).to_have_text("None yet.")
    assert texts(page) == []
    file = tmp_path / "kept.json"
    file.write_text(kept, encoding="utf-8")
    page.locator("#import").set_input_files(file)
    expect(titles).to_have_count(3)
    talk = next(one["talk"] for one in json.loads(kept)["conversations"] if one["kind"] == "talk")
    titles.filter(has_text="bananas").click()
    expect(page.locator("#log li")).to_have_count(len(talk["replies"]) + 1)


def test_a_new_evaluation_and_columns_survive_a_reload(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server, "/compare")
    page.get_by_role("button", name="Add column").click()
    reload(page)
    expect(page.locator(".lane-head")).to_have_count(1)
    assert page.url == f"{shared_server}/compare"  # there is nothing to keep yet
    open_page(page, shared_server, "/judge")
    page.get_by_role("button", name="Add column").click()
    page.locator("#prompts").fill("a\nb")
    page.locator("#evaluation-name").fill("first")
    reload(page)
    expect(page.locator("#columns li")).to_have_count(1)
    expect(page.locator("#prompts")).to_have_value("a\nb")
    expect(page.locator("#evaluation-name")).to_have_value("first")


COLUMN = {"run": "tiny", "snapshot": "latest"}
RECORD = {"title": "x", "changed": "2026-05-01T12:00:00Z"}
TURN = {"id": "1", "parent": None, "follows": 0, "text": "a", "shown": 0, "replies": []}
TALK = {"models": [COLUMN, COLUMN], "decoding": {}, "seed": 1, "text": "a", "replies": [{"text": "b", "step": None}]}
COMPARISON = {"columns": [COLUMN], "turns": [{"id": "1", "text": "a", "results": [{"reply": ANSWER | {"reply": "A"}}]}]}
RECORDS = [
    (RECORD | {"turns": [TURN]}, True),
    (RECORD | {"turns": [TURN | {"parent": "2"}]}, False),
    (RECORD | {"kind": "talk", "talk": TALK}, True),
    (RECORD | {"kind": "talk", "talk": TALK | {"models": [COLUMN]}}, False),
    (RECORD | {"kind": "compare", **COMPARISON}, True),
    (RECORD | {"kind": "compare", **COMPARISON, "columns": []}, False),
    (RECORD | {"kind": "constructor", "turns": []}, False),
    (RECORD | {"kind": None, "turns": [TURN]}, True),
    (RECORD | {"kind": ["chat"], "turns": [TURN]}, False),
    (RECORD | {"changed": 2026, "turns": [TURN]}, False),
    (RECORD | {"turns": [TURN], "deep": functools.reduce(lambda inner, _: [inner], range(40), [])}, False),
    (RECORD | {"kind": "write", "run": "writer", "fields": [""], "shown": []}, False),
    (None, False),
]


def fill_storage(page: Any) -> None:
    """A full storage fails when the transaction ends, after the request."""
    script = """() => {
        const { put } = IDBObjectStore.prototype;
        IDBObjectStore.prototype.put = function (record) {
            const request = put.call(this, record);
            request.addEventListener("success", () => this.transaction.abort());
            return request;
        };
    }"""
    page.evaluate(script)


def test_a_record_that_is_not_stored_stays_in_memory(page: Any, shared_server: str) -> None:
    open_page(page, shared_server)
    fill_storage(page)
    script = """async () => {
        const { loadRecord, saveRecord } = await import("/static/js/kept.js");
        const isKept = await saveRecord({ id: "1", kind: "talk", title: "x", changed: "" });
        return [isKept, (await loadRecord("1"))?.title];
    }"""
    assert page.evaluate(script) == [False, "x"]


@pytest.mark.parametrize("show", [compared, talked])
def test_the_file_of_a_page_is_imported(
    page: Any, shared_server: str, tmp_path: Path, expect: Any, show: Callable[..., Any]
) -> None:
    """And what of it is not stored is said."""
    show(page, shared_server)
    import_download(page, lambda: page.locator("#download-json").dispatch_event("click"), tmp_path, expect)
    fill_storage(page)
    page.locator("#import").set_input_files(tmp_path / "one.json")
    lost = "1 entry will be lost when this page is closed: the browser's storage is full or disabled."
    expect(page.locator("#kept-note")).to_have_text(f"one.json: 0 entries imported. {lost}")


def test_two_tabs_keep_what_followed_their_replies(page: Any, shared_server: str) -> None:
    """Each has added another reply to the same turn, and a turn after it."""
    open_page(page, shared_server)
    script = """async () => {
        const { mergedTurns } = await import("/static/js/kept.js");
        const tab = (name) => ({ turns: [
            { id: "1", parent: null, follows: 0, replies: [{ time: 0 }, { time: name }] },
            { id: name, parent: "1", follows: 1, replies: [] },
        ] });
        const { turns } = mergedTurns(tab("b"), tab("a"));
        return turns.slice(1).map(({ id, follows }) => [id, turns[0].replies[follows].time]);
    }"""
    assert page.evaluate(script) == [["b", "b"], ["a", "a"]]


def test_files_add_to_what_is_kept_and_change_nothing_of_it(page: Any, shared_server: str) -> None:
    """A further turn is added; another talk and another kind with the id of a record become records of their own."""
    records = [
        {"id": number * 24, **record} for number, (record, _) in zip("01", (RECORDS[0], RECORDS[2]), strict=True)
    ]
    chat, talk = ({"kind": "chat"} | record for record in records)
    further = {"title": "y", "turns": [TURN | {"id": "2", "parent": "1"}], "changed": "2026-05-02T12:00:00Z"}
    another = [talk | {"id": chat["id"]}, talk | {"talk": TALK | {"seed": 2}}]
    open_page(page, shared_server)
    script = """async ([records, imported]) => {
        const { allRecords, importRecord, saveRecord } = await import("/static/js/kept.js");
        for (const record of records) await saveRecord(record);
        for (const record of imported) await importRecord(record);
        return allRecords();
    }"""
    kept = {record["id"]: record for record in page.evaluate(script, [[chat, talk], [talk, chat | further, *another]])}
    merged = kept.pop(chat["id"])
    assert (merged["title"], [turn["id"] for turn in merged["turns"]]) == ("x", ["1", "2"])
    assert kept.pop(talk["id"]) == talk
    assert sorted(record["talk"]["seed"] for record in kept.values()) == [1, 2]


def test_files_of_another_shape_are_refused(page: Any, shared_server: str) -> None:
    open_page(page, shared_server)
    script = """async (records) => {
        const { fromJson } = await import("/static/js/conversation_files.js");
        const { KINDS } = await import("/static/js/kept.js");
        const isRead = (record) => {
            try {
                const content = { format: "seq2seq-chat conversations", conversations: [record] };
                return fromJson(JSON.stringify(content)).filter(({ kind }) => kind in KINDS).length;
            } catch (error) {
                return error.message.startsWith("This file contains no conversations.") ? 0 : error.message;
            }
        };
        return records.map(isRead);
    }"""
    assert page.evaluate(script, [record for record, _ in RECORDS]) == [int(valid) for _, valid in RECORDS]
