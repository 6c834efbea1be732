"""200 people who read their replies while they grow; many leave in the middle."""

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

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


def ask(port: int, person: int, path: str = "/api/chat/stream") -> str | None:
    """The reply to a person. Of three, one leaves after the first word, and one before it: None."""
    body = {"run": "tiny", "text": TEXTS[person % 4], "decoding": {"method": "greedy", "min_length": 6}}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=240)) as connection:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        if person % 3 == 2:
            return None
        with connection.getresponse() as response:
            assert response.status == 200, response.read()
            if path == "/api/chat":
                return str(json.load(response)["reply"])
            assert response.readline() == b"event: text\n"
            return None if person % 3 else json.loads(response.read().rsplit(b"data: ", 1)[1])["reply"]


@pytest.mark.nightly
def test_200_streams_leave_neither_threads_nor_memory_behind(shared_results: Path) -> None:
    limits, memory = Limits(), []
    app = create_app(shared_results, limits)
    pool = get_state(app).pool
    with running(app, "127.0.0.1", 0, limits) as server, ThreadPoolExecutor(PEOPLE) as people:
        port = server.effective_port
        replies = {person % 4: ask(port, person, "/api/chat") for person in (0, 9, 6, 3)}
        expected = [None if person % 3 else replies[person % 4] for person in range(PEOPLE)]
        for _ in range(ROUNDS):
            assert list(people.map(ask, [port] * PEOPLE, range(PEOPLE))) == expected
            deadline = time.monotonic() + 120
            while server.task_dispatcher.active_count or pool._pending:  # until nobody is served any more
                assert time.monotonic() < deadline, (server.task_dispatcher.active_count, pool._pending)
                ask(port, 0)
            memory.append(resident_memory())
    assert memory[-1] - memory[ROUNDS // 2 - 1] < MAX_GROWTH, memory
