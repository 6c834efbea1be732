"""Commands use exported models where only the packages that their folder requires can be imported."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.export.onnx import EVALUATION_REQUIREMENTS, export_onnx
from tests.conftest import CommandResult
from tests.engines.onnx.commands import command, run
from tests.random_runs import random_language_run

OLD_RUN = Path(__file__).parents[2] / "compatibility" / "data" / "0.1" / "conversation"


def test_a_run_needs_tensorflow(tiny_run: Path) -> None:
    result = run("chat", tiny_run, stdin="hello\n")
    assert result.returncode == 2
    assert "could not import TensorFlow" in result.stderr


def test_chat(tiny_run: Path, exported: Path, cli: Callable[..., CommandResult]) -> None:
    stdin = "i like the tree1 ?\nthey want the song3 ?\n...\n"
    found = run("chat", exported, "--beam-width", 3, stdin=stdin)
    assert found.returncode == 0, found.stderr
    assert found.stdout == cli("chat", tiny_run, "--beam-width", 3, stdin=stdin.encode()).out


def test_evaluate(tmp_path: Path) -> None:
    """The exported model of an old run has the metrics that are stored with that run."""
    options = ["--data", OLD_RUN / "validation.txt", "--output", tmp_path, "--json", tmp_path / "metrics.json"]
    arguments = ["evaluate", OLD_RUN / "onnx", *options]
    refused = run(*arguments)
    assert refused.returncode == 2
    assert re.fullmatch(
        r"seq2seq-chat: evaluate needs the package \w+, which is not installed; install all that it needs with: "
        r"pip install choix sacrebleu scipy\n",
        refused.stderr,
    )
    found = run(*arguments, file=EVALUATION_REQUIREMENTS)
    assert found.returncode == 0, found.stderr
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    for name, value in json.loads((OLD_RUN / "expected.json").read_text())["evaluation"].items():
        assert metrics[name] == pytest.approx(value, rel=1e-5), name


def test_generate(cli: Callable[..., CommandResult], tmp_path: Path) -> None:
    trained = random_language_run(tmp_path / "results", "the cat sat on the mat.")
    export_onnx(trained, tmp_path / "exported")
    options = ["--prompt", "the cat", "--length", 30, "--seed", 3]
    found = run("generate", tmp_path / "exported", *options)
    assert found.returncode == 0, found.stderr
    assert found.stdout == cli("generate", trained.path, *options).out


def test_serve(exported: Path, cli: Callable[..., CommandResult]) -> None:
    arguments = command("serve", "--results", exported.parent, "--port", 0)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = re.match(r"http://127\.0\.0\.1:\d+/", line := server.stdout.readline())
            assert address, line or server.communicate()
            body = json.dumps({"run": exported.name, "snapshot": None, "text": "you see what ?"}).encode()
            request = urllib.request.Request(f"{address[0]}api/chat", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=240) as response:
                reply = json.load(response)["reply"]
            server.send_signal(signal.SIGINT)
            assert server.communicate(timeout=240)[1] == ""
            assert server.returncode == 0
        finally:
            server.kill()
    assert f"{reply}\n" == cli("chat", exported, stdin=b"you see what ?\n").out
