"""The web UI over the tiny run: a test client, a server and a browser."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from seq2seq_chat.chat.chatbot import Reply
from webui.app import close_app, create_app
from webui.limits import Limits
from webui.server import running

REPLY_TIMEOUT = 240_000  # milliseconds: the first reply includes loading the model, maybe on a busy machine
LIMITS = Limits(max_models=3, max_queued=20, max_queued_total=40, timeout=60.0)


@pytest.fixture(scope="session")
def shared_results(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A read-only results folder with two equal runs, ``tiny`` and ``other``."""
    results = tmp_path_factory.mktemp("shared") / "results"
    shutil.copytree(tiny_run, results / "tiny")
    shutil.copytree(tiny_run, results / "other")
    return results


@pytest.fixture(scope="session")
def shared_client(shared_results: Path) -> Iterator[FlaskClient]:
    """A client of an application over ``shared_results``, which loads its models once."""
    app = create_app(shared_results, LIMITS)
    yield app.test_client()
    close_app(app)


@pytest.fixture
def results(tiny_run: Path, tmp_path: Path) -> Path:
    """A results folder with the run ``tiny``, which a test may change."""
    results = tmp_path / "results"
    shutil.copytree(tiny_run, results / "tiny")
    return results


@pytest.fixture
def make_client(results: Path) -> Iterator[Callable[..., FlaskClient]]:
    """``make_client(token="…")``: a client of an application over ``results`` or another folder."""
    with contextlib.ExitStack() as stack:

        def make(folder: Path = results, **settings: Any) -> FlaskClient:
            app = create_app(folder, **({"limits": LIMITS} | settings))
            stack.callback(close_app, app)
            return app.test_client()

        yield make


@pytest.fixture
def client(make_client: Callable[..., FlaskClient]) -> FlaskClient:
    """A client of an application over ``results``."""
    return make_client()


class FakeChatbot:
    """Replies with the name of its weights and the text."""

    def __init__(self, weights: str) -> None:
        self.weights, self.step, self.warnings = weights, 20, list[str]()

    def replies(self, texts: Sequence[str], *_: Any) -> list[Reply]:
        return [Reply(f"{self.weights}: {text}", [], ["word"], [], 0.0) for text in texts]


@pytest.fixture
def fake_chatbots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Applications load no models."""
    monkeypatch.setattr("webui.model_pool.load_model", lambda _, run, snapshot, *__: FakeChatbot(snapshot or "latest"))


@pytest.fixture(scope="session")
def shared_server(shared_results: Path) -> Iterator[str]:
    """The address of a server over ``shared_results``."""
    with serving(shared_results) as address:
        yield address


@pytest.fixture
def serve() -> Callable[..., contextlib.AbstractContextManager[str]]:
    """``with serve(results) as address``: a server for one test."""
    return serving


@contextlib.contextmanager
def serving(results: Path, port: int = 0, limits: Limits = LIMITS, token: str | None = None) -> Iterator[str]:
    """A server in this process."""
    with running(create_app(results, limits, token), "127.0.0.1", port, limits) as server:
        yield f"http://127.0.0.1:{server.effective_port}"


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page with an empty profile. Errors in its console, of scripts or of the security policy, fail the test."""
    context = browser.new_context(viewport={"width": 1100, "height": 800}, accept_downloads=True)
    context.set_default_timeout(60_000)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if _is_error(message) else None)
    page.on("dialog", lambda dialog: (errors.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    yield page
    context.close()
    assert not errors


def _is_error(message: Any) -> bool:
    """Whether a console message is an error, other than an HTTP error, which some tests provoke."""
    return message.type in ("error", "warning") and "Failed to load resource" not in message.text


@pytest.fixture
def expect() -> Any:
    """Playwright's assertions, with a long timeout."""
    from playwright.sync_api import expect

    expect.set_options(timeout=90_000)
    return expect


def open_page(page: Any, address: str, path: str = "/") -> Any:
    """Open a page and wait for its runs."""
    page.goto(address + path)
    page.locator("#snapshot option").first.wait_for(state="attached")
    return page


def fulfill_reply(route: Any, answer: dict[str, Any]) -> None:
    """Answer a request to /api/chat or /api/chat/stream in place of the server."""
    if route.request.url.endswith("/stream"):
        route.fulfill(body=f"event: reply\ndata: {json.dumps(answer)}\n\n", content_type="text/event-stream")
    else:
        route.fulfill(json=answer)


def open_any_page(page: Any, address: str, path: str) -> None:
    """Open a page and wait for its content; those of runs keep a connection open."""
    page.goto(address + path)
    if path.startswith("/runs"):
        page.wait_for_function("() => !document.getElementById('note').textContent.startsWith('Loading')")
    else:
        page.wait_for_load_state("networkidle")


def choose_beam(page: Any) -> None:
    page.locator("#decoding-button").click()
    page.locator("label", has_text="Beam search").click()
    page.locator("#decoding .btn-close").click()
    page.locator("#decoding").wait_for(state="hidden")


def error_of(response: Any, status: int) -> str:
    """Check an error response; its message."""
    assert response.status_code == status, response.text
    assert response.mimetype == "application/json"
    body = response.get_json()
    assert set(body) == {"error"}
    message: str = body["error"]
    assert 10 < len(message) < 500
    assert "Traceback" not in message
    return message


def resident_memory() -> int:
    """Bytes of this process in memory."""
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096
