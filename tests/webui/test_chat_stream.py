"""Replies as server-sent events: word by word, the same as at once, and stopped with the connection."""

import http.client
import itertools
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from seq2seq_chat.search.batches import ReplySearch
from seq2seq_chat.search.methods import Progress
from tests.webui.conftest import REPLY_TIMEOUT, Serve, open_page, reload, submit
from webui import model_pool

QUESTION = "you see the tree1 ?"
BODY = {"run": "tiny", "text": QUESTION}
pytestmark = pytest.mark.usefixtures("tiny_run", "unoptimized_graphs")


def events(text: str) -> list[tuple[str, Any]]:
    """The names and data of server-sent events, by the rules of the HTML standard that matter here."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


@pytest.mark.parametrize(
    "decoding",
    [
        {"method": "greedy", "min_length": 5},
        {"method": "beam", "beam_width": 4, "n_best": 3, "min_length": 4},
        {"method": "sample", "n_best": 3, "temperature": 3.0, "seed": 4},
        {"method": "beam", "beam_width": 4, "n_best": 4, "rerank": "anti_language_model"},
    ],
    ids=lambda decoding: decoding["method"],
)
def test_the_reply_grows_to_that_of_the_other_endpoint(shared_client: FlaskClient, decoding: dict[str, Any]) -> None:
    body = BODY | {"decoding": decoding}
    expected = shared_client.post("/api/chat", json=body).get_json()
    response = shared_client.post("/api/chat/stream", json=body)
    assert (response.status_code, response.mimetype) == (200, "text/event-stream")
    *texts, (last, reply) = events(response.text)
    assert last == "reply"
    assert {key: reply[key] for key in reply if key != "seconds"} == {
        key: expected[key] for key in expected if key != "seconds"
    }
    assert {name for name, _ in texts} == {"text"}
    grown = [content["text"] for _, content in texts]
    assert grown
    if decoding["method"] != "beam":
        assert reply["reply"].startswith(grown[-1])
        assert [len(text) for text in grown] == sorted(map(len, grown))


def test_a_model_that_is_not_in_memory_is_loaded_first(
    page: Any, client: FlaskClient, serve: Serve, results: Path, monkeypatch: pytest.MonkeyPatch, expect: Any
) -> None:
    """The stream and the page say so, and the time of the reply does not include it."""
    may_load, original = threading.Event(), model_pool.load_model

    def load(*arguments: Any) -> Any:
        time.sleep(1)
        assert may_load.wait(60)
        return original(*arguments)

    monkeypatch.setattr(model_pool, "load_model", load)
    may_load.set()
    start = time.monotonic()
    (first, _), *_, (_, reply) = events(client.post("/api/chat/stream", json=BODY).text)
    assert first == "loading" and reply["seconds"] < time.monotonic() - start - 1
    assert events(client.post("/api/chat/stream", json=BODY).text)[0][0] == "text"
    may_load.clear()
    with serve(results) as address:
        open_page(page, address)
        submit(page, QUESTION)
        expect(page.locator(".typing")).to_contain_text("Loading the model …")
        may_load.set()
        expect(page.locator(".message.model .message-text")).not_to_be_empty(timeout=REPLY_TIMEOUT)


def test_errors_before_the_first_word_have_a_status(shared_client: FlaskClient) -> None:
    changes: list[dict[str, Any]] = [{"run": "missing"}, {"snapshot": "no"}, {"step": 7}, {"text": 5}]
    for change, status in zip(changes, (404, 404, 404, 400), strict=True):
        response = shared_client.post("/api/chat/stream", json=BODY | change)
        assert (response.status_code, set(response.get_json())) == (status, {"error"})


def test_a_text_without_tokens_has_an_empty_reply(shared_client: FlaskClient) -> None:
    ((name, reply),) = events(shared_client.post("/api/chat/stream", json=BODY | {"text": "***"}).text)
    assert (name, reply["reply"], reply["source_words"]) == ("reply", "", [])


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Whether a search was stopped, which would never end by itself, as each step is repeated."""
    stopped = threading.Event()
    original = ReplySearch.begin

    def begin(self: ReplySearch, source: Any, seeds: Any, on_step: Any, prefixes: Any) -> Any:
        def repeat(progress: Progress) -> Any:
            found, changes = progress.hypotheses(), itertools.cycle([0, 1])
            changed = lambda: found._replace(words=found.words + next(changes))  # noqa: E731
            while on_step(progress._replace(hypotheses=changed)).any():
                pass
            stopped.set()
            return np.zeros(1, bool)

        return original(self, source, seeds, repeat, prefixes)

    monkeypatch.setattr(ReplySearch, "begin", begin)
    return stopped


def test_closing_the_connection_stops_the_search(shared_server: str, stopped: threading.Event) -> None:
    connection = http.client.HTTPConnection(shared_server.removeprefix("http://"), timeout=240)
    connection.request("POST", "/api/chat/stream", json.dumps(BODY), {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert any(line.startswith(b"event: text") for line in response)
    assert not stopped.is_set()
    response.close()
    connection.close()
    assert stopped.wait(60)


@pytest.mark.parametrize("way", ["stop", "new", "reload"])
def test_a_stopped_reply_is_kept(
    way: str, page: Any, shared_server: str, stopped: threading.Event, expect: Any
) -> None:
    """Also if it is stopped because the user leaves the conversation or the page."""
    open_page(page, shared_server)
    submit(page, QUESTION)
    expect(page.locator(".pending .message-text")).not_to_be_empty(timeout=REPLY_TIMEOUT)
    if way == "new":
        page.locator("#menu").click()
    if way == "reload":
        reload(page)
    else:
        page.locator(f"#{way}").click()
    assert stopped.wait(60)
    if way == "new":
        expect(page.locator("#log .message-text")).to_have_count(0)
        page.go_back()
    expect(page.locator(".stopped")).to_contain_text("Stopped.")
    texts = page.locator("#log .message-text").all_inner_texts()
    assert texts[0] == QUESTION and texts[1]
    reload(page)
    expect(page.locator(".stopped")).to_contain_text("Stopped.")
    assert page.locator("#log .message-text").all_inner_texts() == texts


def test_a_stream_that_is_cut_is_an_error(page: Any, shared_server: str, expect: Any) -> None:
    open_page(page, shared_server)
    cut = 'event: text\ndata: {"text": "half of"}\n\nevent: te'
    page.route("**/api/chat/stream", lambda route: route.fulfill(body=cut, content_type="text/event-stream"))
    submit(page, QUESTION)
    expect(page.locator(".error")).to_contain_text("The connection was lost before the answer was complete.")
    page.unroute("**/api/chat/stream")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".message.model .message-text")).not_to_be_empty(timeout=REPLY_TIMEOUT)
