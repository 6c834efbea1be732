"""The server as a command: it says where it is, and ends when it is told to."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def command(results: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its first line."""
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_and_ends_when_told(shared_results: Path, number: signal.Signals) -> None:
    with command(shared_results) as (process, line):
        found = re.match(r"(http://127\.0\.0\.1:\d+/) ", line)
        assert found, line
        assert len(get(found[1] + "api/runs")["runs"]) == 2
        process.send_signal(number)
        out, err = process.communicate(timeout=240)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_server_for_others_warns_and_makes_up_a_token(shared_results: Path) -> None:
    with command(shared_results, "--host", "0.0.0.0") as (process, line):
        found = re.match(r"http://127\.0\.0\.1:(\d+)/#token=([\w-]{20,}) ", line)
        assert found, line
        address = f"http://127.0.0.1:{found[1]}/api/runs"
        with pytest.raises(urllib.error.HTTPError, match="401") as refusal:
            get(address)
        refusal.value.close()
        assert len(get(address, found[2])["runs"]) == 2
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=240)
    assert err.startswith("warning: 0.0.0.0 can be reached from other machines")


def test_an_address_that_is_taken(cli: Callable[..., Any], shared_results: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = cli("serve", "--results", shared_results, "--port", port)
    assert f"127.0.0.1:{port} cannot be served" in answer.complaint


@pytest.mark.parametrize("token", ["", "with space", "täken", "new\nline"])
def test_a_token_that_no_header_can_bring(cli: Callable[..., Any], shared_results: Path, token: str) -> None:
    assert "--token" in cli("serve", "--results", shared_results, "--token", token).complaint


@pytest.mark.slow
def test_under_load_nothing_is_lost_or_mixed_up(tiny_run: Path, tmp_path: Path) -> None:
    """What the benchmark of serving counts; its times are not judged here, where other tests may run beside it."""
    script = Path(__file__).resolve().parents[2] / "scripts" / "benchmark_serving.py"
    figures = tmp_path / "figures.json"
    arguments = [sys.executable, str(script), str(tiny_run), "--json", str(figures)]
    arguments += ["--people", "50", "--utterances", "2000", "--crowd", "500", "--alone", "200"]
    environment = os.environ | {"PYTHONPATH": str(script.parents[1])}
    result = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False, timeout=1200)
    assert result.returncode == 0, result.stderr
    alone, many, crowd = json.loads(figures.read_text(encoding="utf-8"))
    assert (alone["replies"], alone["errors"], alone["mixed up"]) == (200, 0, 0)
    assert (many["replies"], many["503"], many["errors"], many["mixed up"]) == (2000, 0, 0, 0)
    assert crowd["replies"] + crowd["503"] == 500
    assert crowd["replies"] >= 64
    assert (crowd["errors"], crowd["mixed up"]) == (0, 0)
