"""The serve command: it prints its address and stops on a signal."""

import errno
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from flask import Response
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser

from tests.webui.conftest import LIMITS, Serve
from webui.app import create_app
from webui.server import NO_PROXY, Channel, Proxy, default_models, outward_address, running

CHECKPOINT = "checkpoints/0000000020.npz"


@contextmanager
def serving(results: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a subprocess, and the first line of its output."""
    arguments = [sys.executable, "-m", "seq2seq_chat", "serve", "--results", str(results), "--port", "0", *options]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def get(address: str, token: str | None = None) -> Any:
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=240) as response:
        return json.load(response)


def test_serve_prints_its_address_and_stops_on_sigint(shared_results: Path) -> None:
    with serving(shared_results) as (process, line):
        match = re.match(r"(http://127\.0\.0\.1:\d+/) ", line)
        assert match, line
        assert len(get(match[1] + "api/runs")["runs"]) == 2
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.slow
def test_a_public_server_warns_and_generates_a_token_and_stops_on_sigterm(shared_results: Path) -> None:
    with serving(shared_results, "--host", "0.0.0.0") as (process, line):
        match = re.match(r"http://(.+):(\d+)/#token=([\w-]{20,})   \(press Ctrl-C to stop\)", line)
        assert match, line
        assert match[1] not in ("127.0.0.1", "0.0.0.0")
        with pytest.raises(urllib.error.HTTPError, match="401") as error_info:
            get(f"http://127.0.0.1:{match[2]}/api/runs")
        error_info.value.close()
        assert len(get(f"http://127.0.0.1:{match[2]}/api/runs", match[3])["runs"]) == 2
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        out = process.stdout.read()  # until the end: without a second address, waiting for it would take forever
        _, err = process.communicate(timeout=240)
    assert process.returncode == 0
    assert out == f"http://127.0.0.1:{match[2]}/#token={match[3]}   (on this machine)\n"
    assert err.startswith("seq2seq-chat: warning: other machines can reach 0.0.0.0")


def test_without_a_network_the_machine_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.socket", Mock(side_effect=OSError(errno.ENETUNREACH, "Network is unreachable")))
    assert outward_address("0.0.0.0") == outward_address("::") == socket.gethostname()


@pytest.mark.slow
def test_a_server_behind_a_proxy_prints_its_path_and_requires_a_token(shared_results: Path) -> None:
    with serving(shared_results, "--root-path", "/chat/", "--trusted-proxy", "127.0.0.1") as (process, line):
        match = re.match(r"(http://127\.0\.0\.1:\d+/chat/)#token=([\w-]{20,}) ", line)
        assert match, line
        assert len(get(match[1] + "api/runs", match[2])["runs"]) == 2
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=240)
    assert err.startswith("seq2seq-chat: warning: other machines can reach this server through the proxy 127.0.0.1")


@pytest.mark.parametrize(
    ("free", "weights", "models"),
    [
        *((1e12, {CHECKPOINT: 1000}, 16), (8e9, {CHECKPOINT: 7 * 10**8}, 4), (1e6, {CHECKPOINT: 0}, 4)),
        *((16e9, {CHECKPOINT: 4 * 10**8}, 8), (64e9, {CHECKPOINT: 7 * 10**8}, 16)),
        (16e9, {"model.json": 1000, "encoder.onnx": 10**8, "decoder_step.onnx": 3 * 10**8}, 8),
    ],
)
def test_as_many_models_as_fit_in_a_quarter_of_the_memory(
    results: Path, monkeypatch: pytest.MonkeyPatch, free: float, weights: dict[str, int], models: int
) -> None:
    monkeypatch.setattr("webui.server.free_memory", lambda: free)
    for name, size in weights.items():
        (results / "tiny" / name).touch()
        os.truncate(results / "tiny" / name, size)
    assert default_models(results) == models


def test_a_port_in_use_is_an_error(cli: Callable[..., Any], shared_results: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = cli("serve", "--results", shared_results, "--port", port)
    assert f"could not listen on 127.0.0.1:{port}" in answer.error_message


@pytest.mark.parametrize("token", ["", "with space", "täken", "new\nline"])
def test_an_invalid_token_is_an_error(cli: Callable[..., Any], shared_results: Path, token: str) -> None:
    assert "--token" in cli("serve", "--results", shared_results, "--token", token).error_message


@pytest.mark.slow
def test_no_reply_is_lost_or_mixed_up_under_load(tiny_run: Path, tmp_path: Path) -> None:
    """The counts of the serving benchmark; its times are not tested."""
    script = Path(__file__).resolve().parents[2] / "scripts" / "benchmark_serving.py"
    command = [sys.executable, str(script), str(tiny_run), "--json", str(tmp_path / "results.json")]
    command += ["--clients", "50", "--utterances", "2000", "--burst", "500", "--distinct", "200"]
    environment = os.environ | {"PYTHONPATH": str(script.parents[1])}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1200)
    assert result.returncode == 0, result.stderr
    alone, concurrent, burst = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert (alone["replies"], concurrent["replies"], burst["replies"] + burst["503"]) == (200, 2000, 500)
    assert (concurrent["503"], burst["replies"] >= 64) == (0, True)
    assert not any(phase["errors"] + phase["wrong replies"] for phase in (alone, concurrent, burst))


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        ("Content-Length: 20000000\r\n", b"a" * 20_000_000, 413),
        ("Transfer-Encoding: chunked\r\n", b"1000000\r\n" + b"a" * 2**24 + b"\r\n0\r\n\r\n", 413),
        (f"X-Long: {'a' * 100_000}\r\n", b"", 431),
        ("no header\r\n", b"", 400),
    ],
    ids=["body", "chunks", "headers", "syntax"],
)
def test_a_client_that_sends_too_much_can_read_the_error(
    shared_server: str, head: str, body: bytes, status: int
) -> None:
    """Although it reads only after it has sent everything."""
    address = ("127.0.0.1", int(shared_server.rpartition(":")[2]))
    with socket.create_connection(address, timeout=60) as client:
        client.sendall(f"POST /api/chat HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode() + body)
        response = http.client.HTTPResponse(client)
        response.begin()
        content = response.read()
        assert (response.status, response.headers["Content-Type"]) == (status, "application/json")
        assert list(json.loads(content)) == ["error"]
        assert client.recv(1) == b""


REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(("proxy", "is_closed"), [(NO_PROXY, True), (Proxy("", "127.0.0.1"), False)])
def test_idle_connections_make_room_for_new_ones(
    shared_results: Path, monkeypatch: pytest.MonkeyPatch, proxy: Proxy, is_closed: bool
) -> None:
    """At most 40 of 80 come from one address; the proxy's may have all."""
    monkeypatch.setattr("webui.server.MAX_CONNECTIONS", 80)
    with ExitStack() as stack:
        server = stack.enter_context(running(create_app(shared_results, LIMITS), "127.0.0.1", 0, LIMITS, proxy))
        port = server.effective_port

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))

        clients = [connect() for _ in range(44)]
        get(f"http://127.0.0.1:{port}/healthz")
        if not is_closed:
            clients[0].sendall(REQUEST)
        assert clients[0].recv(12) == (b"" if is_closed else b"HTTP/1.1 200")
        for _ in range(60):  # more than any address may have
            newest = connect()
        newest.sendall(REQUEST)
        assert newest.recv(12) == b"HTTP/1.1 200"


def test_the_thread_of_a_request_sends_alone(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's thread does not try meanwhile, but sends what a slow reader does not take at once."""
    app = create_app(results, LIMITS)
    parts, size = [f"{number}\n" for number in range(100)], 40 * 2**20  # more than waitress keeps in memory
    app.add_url_rule("/parts", "parts", lambda: Response(parts))
    app.add_url_rule("/large", "large", lambda: Response(bytes(2**20) for _ in range(size // 2**20)))
    attempts = Counter[bool]()

    def attempt(channel: Channel, **options: Any) -> bool:
        attempts[succeeds := bool(HTTPChannel._flush_some_if_lockable(channel, **options))] += 1
        return succeeds

    def send_slowly(channel: Channel, data: bytes, **options: Any) -> Any:
        time.sleep(0.001)
        return HTTPChannel.send(channel, data, **options)

    monkeypatch.setattr(Channel, "_flush_some_if_lockable", attempt)
    monkeypatch.setattr(Channel, "send", send_slowly)
    with running(app, "127.0.0.1", 0, LIMITS) as server, ThreadPoolExecutor(8) as pool:
        address = f"http://127.0.0.1:{server.effective_port}"
        bodies = pool.map(lambda _: urllib.request.urlopen(f"{address}/parts", timeout=60).read(), range(16))
        assert set(bodies) == {"".join(parts).encode()}
        assert attempts[False] < 16
        connection = http.client.HTTPConnection("127.0.0.1", server.effective_port, timeout=60)
        connection.request("GET", "/large")
        response = connection.getresponse()
        assert sum(len(block) for block in iter(lambda: response.read(2**16), b"")) == size
        connection.close()


def test_a_connection_ends_after_the_first_of_too_many_pipelined_requests(shared_server: str) -> None:
    with socket.create_connection(("127.0.0.1", int(shared_server.rpartition(":")[2])), timeout=20) as client:
        client.sendall(REQUEST * 150)
        content = client.makefile("rb").read()  # until the end, which is no reset
    assert 2 <= content.count(b"HTTP/1.1 200") < 20
    assert content.rpartition(b"HTTP/1.1 200")[2].count(b"Connection: close") == 1


def test_too_many_pipelined_requests_of_a_client_that_leaves_cost_little(
    shared_server: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest of them is not even parsed, and nothing is logged."""
    parsed: list[object] = []
    monkeypatch.setattr(
        "webui.server.HTTPRequestParser", lambda adjustments: parsed.append(0) or HTTPRequestParser(adjustments)
    )
    address = ("127.0.0.1", int(shared_server.rpartition(":")[2]))
    for _ in range(40):
        with socket.create_connection(address, timeout=20) as client:
            client.sendall(REQUEST * 50)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close by a reset
    with socket.create_connection(address, timeout=20) as client:
        client.sendall(REQUEST)
        assert client.recv(12) == b"HTTP/1.1 200"
    assert 1 <= len(parsed) < 40 * 4
    assert not caplog.records


def test_a_page_that_was_closed_makes_room_for_another_follower(
    shared_results: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    followers = threading.BoundedSemaphore(1)
    monkeypatch.setattr("webui.workbench_api._followers", followers)
    monkeypatch.setattr("webui.run_registry.INTERVAL", 0.01)
    with serve(shared_results) as address:
        with urllib.request.urlopen(f"{address}/api/events", timeout=60) as events:
            assert events.readline() == b"event: runs\n"
            with pytest.raises(urllib.error.HTTPError, match="503") as error_info:
                get(f"{address}/api/events")
            error_info.value.close()
        assert followers.acquire(timeout=10)  # long before the next event shows it
        followers.release()
