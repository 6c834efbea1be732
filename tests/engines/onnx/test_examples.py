"""The programs of docs/examples/, which use an exported model without this project, reply as `chat` does."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.export.onnx import export_onnx
from seq2seq_chat.runs.run import Run
from seq2seq_chat.text.codec import Codecs
from tests.conftest import CommandResult
from tests.random_runs import make_codec, random_language_run, random_run, small_config

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"
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


@pytest.mark.parametrize(
    "changes", [["data.tokenizer=character"], ["data.tokenizer=english", "data.target_tokenizer=thesis"]]
)
def test_other_tokenizers_are_refused(program: list[str], tmp_path: Path, changes: list[str]) -> None:
    config = small_config(*changes, "task=translation", "data.train=train.tsv")
    sides = [make_codec(text.tokenizer, ["a"]) for text in (config.data.source_text, config.data.target_text)]
    refuses(program, random_run(tmp_path, config, Codecs(*sides)))


def test_a_language_model_is_refused(program: list[str], tmp_path: Path) -> None:
    refuses(program, random_language_run(tmp_path, "a b", tokenizer="english"))


def refuses(program: list[str], run: Run) -> None:
    export_onnx(run, run.path / "model")
    finished = subprocess.run(
        [*program, str(run.path / "model")], input=INPUT, text=True, capture_output=True, check=False
    )
    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr == (
        f"{run.path / 'model'} is a language model, or has a tokenizer other than english or whitespace; "
        "use seq2seq-chat\n"
    )


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
