"""The web UI over the tiny run: a test client, a server and a browser."""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from flask.testing import FlaskClient

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.runs.run import Run
from tests.random_runs import random_language_run
from webui.app import close_app, create_app
from webui.limits import Limits
from webui.server import running

Serve = Callable[..., contextlib.AbstractContextManager[str]]
MakeClient = Callable[..., FlaskClient]
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


@pytest.fixture(scope="session")
def chatbot(shared_results: Path) -> Chatbot:
    """The chatbot of the run ``tiny``."""
    return Chatbot.load(Run(shared_results / "tiny"))


@pytest.fixture(scope="session")
def writers(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model, ``writer``, with two snapshots, and ``tiny``, which converses."""
    results = tmp_path_factory.mktemp("writers")
    random_language_run(results / "new", "the cat sat on a mat.\n", steps=(3, 7)).path.rename(results / "writer")
    shutil.copytree(tiny_run, results / "tiny")
    return results


@pytest.fixture
def results(tiny_run: Path, tmp_path: Path) -> Path:
    """A results folder with the run ``tiny``, which a test may change."""
    results = tmp_path / "results"
    shutil.copytree(tiny_run, results / "tiny")
    return results


@pytest.fixture
def make_client(results: Path) -> Iterator[MakeClient]:
    """``make_client(token="…")``: a client of an application over ``results`` or another folder."""
    with contextlib.ExitStack() as stack:

        def make(folder: Path = results, **settings: Any) -> FlaskClient:
            app = create_app(folder, **({"limits": LIMITS} | settings))
            stack.callback(close_app, app)
            return app.test_client()

        yield make


@pytest.fixture
def client(make_client: MakeClient) -> FlaskClient:
    """A client of an application over ``results``."""
    return make_client()


@pytest.fixture(scope="session")
def shared_server(shared_results: Path) -> Iterator[str]:
    """The address of a server over ``shared_results``."""
    with serving(shared_results) as address:
        yield address


@pytest.fixture
def serve() -> Serve:
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


def set_decoding(page: Any, method: str, fields: Mapping[str, object] = MappingProxyType({})) -> None:
    """Choose a method of decoding and fill fields of its form, named by their labels."""
    page.locator("#decoding-button").click()
    page.locator("#decoding label", has_text=method).click()
    for label, value in fields.items():
        page.get_by_label(label).fill(str(value))
    page.locator("#decoding .btn-close").click()
    page.locator("#decoding").wait_for(state="hidden")


def choose_beam(page: Any) -> None:
    set_decoding(page, "Beam search")


def submit(page: Any, text: str) -> None:
    page.locator("#text").fill(text)
    page.keyboard.press("Enter")


def wait_until_kept(page: Any) -> None:
    """Wait until what a page keeps is in the browser's database; a reply is shown before that."""
    page.evaluate("async () => (await import('/static/js/kept.js')).allKept()")


def reload(page: Any) -> None:
    wait_until_kept(page)
    page.reload()


def hold(page: Any, path: str) -> list[Any]:
    """Leave requests to a path without an answer; their routes."""
    held: list[Any] = []
    page.route(path, lambda route: held.append(route))  # noqa: PLW0108  playwright inspects the function
    return held


def download(page: Any, click: Callable[[], None]) -> str:
    """The content of the file that a click downloads."""
    with page.expect_download() as file:
        click()
    return Path(file.value.path()).read_text(encoding="utf-8")


def import_download(page: Any, click: Callable[[], None], folder: Path, expect: Any) -> None:
    """Import the file that a click downloads."""
    file = folder / "one.json"
    file.write_text(download(page, click), encoding="utf-8")
    page.locator("#import").set_input_files(file)
    expect(page.locator("#kept-note")).to_have_text("one.json: 1 entry imported.")


def set_view(page: Any, width: int, colors: str) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=colors, reduced_motion="reduce")


def problems_of(page: Any) -> list[Any]:
    """Violations that axe finds on a page, and whether it is too wide."""
    from axe_playwright_python.sync_playwright import Axe

    results = Axe().run(page).response
    assert len(results["passes"]) > 10  # axe did run
    found = [(one["id"], one["nodes"][0]["html"][:200]) for one in results["violations"]]
    return found + ["too wide"] * page.evaluate("() => document.documentElement.scrollWidth > innerWidth")


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
