"""An exported model replies as the run does, without TensorFlow."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.load import TENSORFLOW
from seq2seq_chat.engines.onnx.manifest import write_manifest
from seq2seq_chat.runs.run import Run
from tests.conftest import CommandResult

UTTERANCES = ["i like the tree1 ?", "they want the song3 ?", "you see what ?", "...", "we know the house7 ?"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "beam", "beam_width": 5, "n_best": 3, "length_penalty": 0.7},
        {"method": "beam", "beam_width": 4, "n_best": 4, "beam_groups": 2, "no_repeat_ngram_size": 2},
        {"method": "beam", "beam_width": 5, "n_best": 2, "rerank": "anti_language_model"},
        {"method": "sample", "n_best": 4, "seed": 3, "temperature": 1.5, "top_k": 20, "repetition_penalty": 1.2},
        {"method": "sample", "n_best": 2, "seed": 4, "top_p": 0.9, "min_length": 4},
        {"allow_unknown": True, "replace_unknown": True},
    ],
    ids=str,
)
def test_replies_and_scores_are_those_of_the_run(tiny_run: Path, exported: Path, settings: dict[str, Any]) -> None:
    ours, theirs = Chatbot.load(Run(tiny_run), engine=TENSORFLOW), Chatbot.load(Run(exported))
    assert ours.step == theirs.step
    decoding = ours.config.decoding.model_validate(settings)
    pairs = zip(ours.replies(UTTERANCES, decoding), theirs.replies(UTTERANCES, decoding), strict=True)
    for expected, found in pairs:
        assert found.text == expected.text
        assert found.source_words == expected.source_words
        for hypothesis, other in zip(found.hypotheses, expected.hypotheses, strict=True):
            assert hypothesis.words == other.words
            assert hypothesis.score == pytest.approx(other.score, abs=1e-4)
            assert hypothesis.rank == pytest.approx(other.rank, abs=1e-4)
            np.testing.assert_allclose(hypothesis.attention, other.attention, atol=1e-5)


def test_description(exported: Path, tiny_run: Path) -> None:
    about = json.loads((exported / "model.json").read_text())
    assert about["run"] == tiny_run.name
    assert about["special_words"] == {"<pad>": 0, "<go>": 1, "<eos>": 2, "<unknown>": 3}
    assert (about["source_steps"], about["target_steps"]) == (8, 8)
    assert set(about["files"]) == {path.name for path in exported.iterdir()} - {"model.json"}


def test_the_example_of_the_readme_replies(exported: Path) -> None:
    """It needs numpy and onnxruntime only, and writes the tokens of the greedy reply."""
    text = (exported / "README.txt").read_text()
    program = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    ") and "pip" not in line)
    program = program[program.index("import json") :]
    assert len(program.splitlines()) <= 12
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=exported, text=True, capture_output=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    (prompt,) = re.findall(r"for token in (\[.*?\])\]", program)
    bot = Chatbot.load(Run(exported))
    expected = bot.reply(" ".join(ast.literal_eval(prompt))).hypotheses[0].words
    assert finished.stdout.removesuffix("\n").removesuffix(" <eos>").split(" ") == expected


@pytest.mark.parametrize(
    "name", ["encoder.onnx", "decoder_step.onnx", "vocabulary.txt", "config.json", "model.json", "README.txt"]
)
@pytest.mark.parametrize("damage", ["change", "truncate", "delete"])
def test_damaged_files_are_reported(
    exported: Path, tmp_path: Path, cli: Callable[..., CommandResult], name: str, damage: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(exported, folder)
    contents = bytearray((folder / name).read_bytes())
    middle = len(contents) // 2
    if damage == "delete":
        (folder / name).unlink()
    else:
        contents[middle] ^= 1
        (folder / name).write_bytes(contents if damage == "change" else contents[:middle])
    message = cli("chat", folder, stdin=b"hello\n").error_message
    if (name, damage) != ("model.json", "delete"):  # then it is a run without checkpoints
        assert name in message
        again = "copy" if (name, damage) == ("config.json", "delete") else "export"
        assert f"restore it from a backup, or {again} the run again" in message


def change_manifest(folder: Path, **changes: Any) -> None:
    """Change ``model.json`` as another version would have written it."""
    path = folder / "model.json"
    about = json.loads(path.read_text())
    path.unlink()
    write_manifest(folder, {name: value for name, value in about.items() if name != "sha256"} | changes)
    if "format" in changes:
        about = json.loads(path.read_text()) | changes
        path.write_text(json.dumps(about))


def test_a_newer_format_is_reported(exported: Path, tmp_path: Path, cli: Callable[..., CommandResult]) -> None:
    folder = tmp_path / "model"
    shutil.copytree(exported, folder)
    change_manifest(folder, format=2)
    assert "has format 2" in (message := cli("chat", folder, stdin=b"hello\n").error_message)
    assert "update seq2seq-chat" in message


def test_an_unknown_opset_is_reported(exported: Path, tmp_path: Path, cli: Callable[..., CommandResult]) -> None:
    folder = tmp_path / "model"
    shutil.copytree(exported, folder)
    graph = onnx.load(folder / "encoder.onnx")
    graph.opset_import[0].version = 999
    onnx.save(graph, folder / "encoder.onnx")
    change_manifest(folder, opset=999)
    message = cli("chat", folder, stdin=b"hello\n").error_message
    assert "opset 999" in message
    assert "pip install --upgrade onnxruntime" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chat", "{}", "--snapshot", "best"], "is an exported model, which has no snapshots"),
        (["export", "{}", "--output", "copy"], "is an exported model, which `export` does not support"),
        (["train", "--resume", "{}"], "is an exported model, which `train --resume` does not support"),
        (["generate", "{}"], "is no language model"),
    ],
)
def test_what_an_exported_model_cannot_do(
    exported: Path, cli: Callable[..., CommandResult], arguments: list[str], message: str
) -> None:
    command = [argument.format(exported) for argument in arguments]
    assert message in cli(*command, stdin=b"hello\n").error_message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "onnx", "--n-best", "2"], "are for --format saved_model"),
        (["--quantize", "int8"], "--quantize is for --format onnx"),
        (["--format", "onnx", "--output", "{}"], "already exists; choose another folder"),
    ],
)
def test_invalid_options(
    tiny_run: Path, cli: Callable[..., CommandResult], tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "file").touch()
    command = [option.format(tmp_path) for option in options]
    assert message in cli("export", tiny_run, "--output", tmp_path / "new", *command).error_message


@pytest.mark.parametrize(
    "settings",
    [{}, {"method": "beam", "beam_width": 3}, {"method": "sample", "n_best": 2, "seed": 3}],
    ids=str,
)
def test_replies_grow_step_by_step_as_those_of_the_run(
    tiny_run: Path, exported: Path, settings: dict[str, Any]
) -> None:
    seen: list[list[list[str]]] = []
    for folder in (tiny_run, exported):
        bot, texts = Chatbot.load(Run(folder)), []
        decoding = bot.config.decoding.model_validate(settings)

        def on_step(replies: list[str], texts: list[list[str]] = texts) -> bool:
            texts.append(replies)
            return len(texts) < 4

        bot.replies(UTTERANCES, decoding, seeds=range(len(UTTERANCES)), on_step=on_step)
        seen.append(texts)
    assert seen[1] == seen[0]
    assert 1 < len(seen[0]) <= 4
