"""The programs of docs/examples/, which use an exported model without this project, reply as `chat` does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.export.portable_model import export_onnx
from tests.conftest import CommandResult
from tests.random_runs import make_codec, random_run, small_config

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
MODULE = "onnxruntime-node"
INPUT = "i like the Tree1?\nthey want thé song3 !\n\n☃\nyou see what ? " + "the house7 " * 9 + "\nYOU, SEE\n"


@pytest.fixture(scope="module")
def reversed_translation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported model with a vocabulary for each side, which reads sentences from right to left."""
    folder = tmp_path_factory.mktemp("translation")
    config = small_config(
        "task=translation", "data.train=train.tsv", "data.tokenizer=whitespace", "data.reverse_input=true"
    )
    source = make_codec("whitespace", ["i", "like", "the", "you", "see", "what", "?"])
    target = make_codec("whitespace", ["ich", "mag", "den", "du", "siehst", "was", "?"])
    export_onnx(random_run(folder / "results", config, Codecs(source, target)), folder / "model")
    return folder / "model"


@pytest.fixture(params=["reply.py", "reply.js"])
def program(request: pytest.FixtureRequest) -> list[str]:
    """The command of an example."""
    if request.param == "reply.py":
        return [sys.executable, str(EXAMPLES / request.param)]
    node = shutil.which("node")
    find_module = [str(node), "-e", f"require.resolve('{MODULE}')"]
    if node is None or subprocess.run(find_module, capture_output=True, check=False).returncode:
        pytest.skip(f"needs node, with {MODULE} in a folder of NODE_PATH")
    return [node, str(EXAMPLES / request.param)]


def test_replies(program: list[str], exported: Path, cli: Callable[..., CommandResult]) -> None:
    assert replies(program, exported) == chat(cli, exported)


def test_replies_of_a_translation_model(
    program: list[str], reversed_translation: Path, cli: Callable[..., CommandResult]
) -> None:
    expected = chat(cli, reversed_translation)
    assert len(set(expected)) > 3
    assert replies(program, reversed_translation) == expected


def replies(program: list[str], folder: Path) -> list[str]:
    finished = subprocess.run(
        [*program, str(folder)], input=INPUT, text=True, encoding="utf-8", capture_output=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


def chat(cli: Callable[..., CommandResult], folder: Path) -> list[str]:
    result = cli("chat", folder, "--set", "decoding.method=greedy", stdin=INPUT.encode())
    assert result.status == 0, result
    return result.out.splitlines()
