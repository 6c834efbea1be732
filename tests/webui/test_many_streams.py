"""200 people who read their replies while they grow; many leave in the middle."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.webui.conftest import resident_memory
from webui.app import create_app
from webui.app_state import get_state
from webui.limits import Limits
from webui.server import running

PEOPLE = 200
ROUNDS = 6
MAX_GROWTH = 16 * 2**20  # bytes in the last half of the rounds
TEXTS = [f"you see the tree{number} ?" for number in range(1, 5)]
pytestmark = pytest.mark.usefixtures("tiny_run", "unoptimized_graphs")


@contextmanager
def requested(port: int, path: str, body: dict[str, Any] | None = None) -> Iterator[http.client.HTTPConnection]:
    """A connection on which something was requested; it is cut at the end."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=240)) as connection:
        connection.request("POST" if body else "GET", path, json.dumps(body), {"Content-Type": "application/json"})
        yield connection


def question(text: str) -> dict[str, Any]:
    return {"run": "tiny", "text": text, "decoding": {"method": "greedy", "min_length": 6}}


def stream(port: int, person: int) -> str | None:
    """The reply to a person. Of three, one leaves after the first word, and one before it: None."""
    with requested(port, "/api/chat/stream", question(TEXTS[person % len(TEXTS)])) as connection:
        if person % 3 == 2:
            return None
        with connection.getresponse() as response:
            assert response.status == 200, response.read()
            assert response.readline() == b"event: text\n"
            return None if person % 3 else json.loads(response.read().rsplit(b"data: ", 1)[1])["reply"]


def get_json(port: int, path: str, body: dict[str, Any] | None = None) -> Any:
    with requested(port, path, body) as connection, connection.getresponse() as response:
        return json.load(response)


def wait_until_idle(server: Any, pool: Any) -> None:
    """Request something until no thread of the server does anything else, and nothing is queued for a model."""
    deadline = time.monotonic() + 120
    while server.task_dispatcher.active_count or pool._pending:
        assert time.monotonic() < deadline, (server.task_dispatcher.active_count, pool._pending)
        get_json(server.effective_port, "/healthz")


@pytest.mark.nightly
def test_200_streams_leave_neither_threads_nor_memory_behind(shared_results: Path) -> None:
    limits = Limits()
    app = create_app(shared_results, limits)
    memory = []
    with running(app, "127.0.0.1", 0, limits) as server, ThreadPoolExecutor(PEOPLE) as people:
        port = server.effective_port
        expected = {text: get_json(port, "/api/chat", question(text))["reply"] for text in TEXTS}
        for _ in range(ROUNDS):
            replies = list(people.map(stream, [port] * PEOPLE, range(PEOPLE)))
            assert replies == [None if n % 3 else expected[TEXTS[n % len(TEXTS)]] for n in range(PEOPLE)]
            wait_until_idle(server, get_state(app).pool)
            memory.append(resident_memory())
    assert memory[-1] - memory[ROUNDS // 2 - 1] < MAX_GROWTH, memory
