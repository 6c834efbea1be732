"""An exported model replies, writes and scores what its run does, without TensorFlow."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.generator import Generator, LanguageModelScorer
from seq2seq_chat.config import ConfigError, Decoding
from seq2seq_chat.engines.onnx.engine import OnnxModel, open_session
from seq2seq_chat.engines.onnx.manifest import ExportedModelError, write_manifest
from seq2seq_chat.export.onnx import export_onnx
from seq2seq_chat.runs.run import Run
from seq2seq_chat.search.engine import ALL_PROBABILITY, ALL_WORDS, BlockRequest, WordDistribution
from seq2seq_chat.system.hardware import TENSORFLOW
from tests.conftest import CommandResult
from tests.engines.onnx.conftest import TEXTS, compare_replies
from tests.random_runs import random_language_run
from tests.reference_model import Reference

TEXT = "the cat sat on the mat.\n\nthe dog saw it? Groß und süß!"
PROMPTS = ("the cat", "", "a long prompt\nwith ☃ unknown characters")
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
    compare_replies(theirs, ours, UTTERANCES, ours.config.decoding.model_validate(settings), tolerance=1e-4)


@pytest.mark.slow(minutes=1)
def test_replies_in_german(german_run: Run) -> None:
    """Whatever the tokenizer. Large random weights amplify the rounding of sums."""
    ours, theirs = Chatbot.load(german_run, engine=TENSORFLOW), Chatbot.load(Run(german_run.path / "exported"))
    searches = Decoding(), Decoding(method="beam", beam_width=5, n_best=5)
    assert len({text for each in searches for text in compare_replies(theirs, ours, TEXTS, each, 1e-3)}) > 3


@pytest.fixture(scope="module", params=["character", "english", "subword", "unicode"])
def generators(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Generator]:
    """Of a run, with both engines, and of its exported model."""
    folder = tmp_path_factory.mktemp("language")
    run = random_language_run(folder / "results", TEXT, tokenizer=request.param)
    export_onnx(run, folder / "exported")
    return [Generator.load(run, engine=TENSORFLOW), Generator.load(run), Generator.load(Run(folder / "exported"))]


@pytest.mark.parametrize("settings", [{}, {"temperature": 3.0, "top_k": 5}, {"top_p": 0.7, "allow_unknown": True}])
def test_texts_and_probabilities(generators: list[Generator], settings: dict[str, Any]) -> None:
    decoding = Decoding(method="sample", **settings)
    for seed, prompt in enumerate(PROMPTS):
        expected, *others = (
            [token for block in generator.explained_stream(prompt, 70, decoding, seed) for token in block]
            for generator in generators
        )
        for tokens in others:
            assert [token.text for token in tokens] == [token.text for token in expected]
            for one, other in zip(tokens, expected, strict=True):
                assert one.probability == pytest.approx(other.probability, rel=1e-4, abs=1e-7)
                assert [a.text for a in one.alternatives] == [a.text for a in other.alternatives]


@pytest.mark.parametrize("number", [0, 1], ids=["tensorflow", "onnx"])
def test_explained_tokens_have_the_probabilities_of_numpy(generators: list[Generator], number: int) -> None:
    """Of the sampled token and of the most probable ones, among those that may be written."""
    engine, reference = generators[number].engine, Reference(generators[0].engine.model)  # type: ignore[attr-defined]
    uniform = np.random.default_rng(1).random([2, 20])
    first, forbidden = np.array([5, 6], np.int32), (0, 1, 3)
    flat = WordDistribution(5.0, ALL_WORDS, ALL_PROBABILITY)
    block, _ = engine.sample_block(engine.start(2), BlockRequest(first, uniform, flat, forbidden, True))
    for row in range(2):
        logits = reference.text_logits([int(first[row]), *block.ids[row, :-1].tolist()])
        logits[:, forbidden] = -np.inf
        expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        words = np.concatenate([block.most_probable[row], block.ids[row][:, np.newaxis]], axis=1)
        np.testing.assert_allclose(block.probabilities[row], np.take_along_axis(expected, words, axis=1), rtol=2e-3)
        np.testing.assert_array_equal(words[:, :5], np.argsort(-logits, axis=1)[:, :5])
    assert len(set(block.ids.ravel().tolist())) > 3


def test_scores_of_texts(generators: list[Generator]) -> None:
    tokens = np.random.default_rng(2).integers(4, generators[0].engine.vocabulary_size, 1500)
    expected, *others = (LanguageModelScorer(generator.engine).score(tokens) for generator in generators)
    for score in others:
        assert score.nats == pytest.approx(expected.nats, rel=1e-5)
        assert (score.tokens, score.correct) == (expected.tokens, expected.correct)


def run_example(folder: Path) -> tuple[str, str]:
    """Run the program of an exported model's README, which needs numpy and onnxruntime only; it and its output."""
    lines = (folder / "README.txt").read_text().splitlines()
    program = "\n".join(line[4:] for line in lines if line.startswith("    "))
    program = program[program.index("import json") :]
    assert len(program.splitlines()) <= 12
    command = [sys.executable, "-c", program]
    return program, subprocess.run(command, cwd=folder, text=True, capture_output=True, check=True).stdout


def test_the_example_of_the_readme_replies(exported: Path) -> None:
    """It writes the tokens of the greedy reply."""
    program, output = run_example(exported)
    (prompt,) = re.findall(r"for token in (\[.*?\])\]", program)
    expected = Chatbot.load(Run(exported)).reply(" ".join(ast.literal_eval(prompt))).hypotheses[0].words
    assert output.removesuffix("\n").removesuffix(" <eos>").split(" ") == expected


def test_the_example_of_the_readme_writes(tmp_path: Path) -> None:
    export_onnx(random_language_run(tmp_path / "results", TEXT), tmp_path / "exported")
    _, output = run_example(tmp_path / "exported")
    assert len(output) > 200
    assert not re.search("<(pad|go|eos|unknown)>", output)


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


def test_what_cannot_be_read_or_computed_is_not_called_damaged(
    exported: Path, tmp_path: Path, cli: Callable[..., CommandResult]
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(exported, folder)
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    with pytest.raises(ConfigError, match=r"config\.json is a folder"):
        _ = Run(folder).config
    session = Mock()
    session.run.side_effect = RuntimeError("Failed to allocate memory for requested buffer of size 9")
    with pytest.raises(MemoryError):
        OnnxModel._run(session, None, {})


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
    with pytest.raises(ExportedModelError, match=r"cannot read the graph of this run: \[ONNXRuntimeError"):
        open_session(b"no graph", {"opset": 18})  # which no later version reads, either


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chat", "{}", "--snapshot", "best"], "is an exported model, which has no snapshots"),
        (["export", "{}", "--output", "copy"], "is an exported model, which `export` does not support"),
        (["train", "--resume", "{}"], "is an exported model, which `train --resume` does not support"),
        (["generate", "{}"], "is not a language model"),
    ],
)
def test_what_an_exported_model_cannot_do(
    exported: Path, cli: Callable[..., CommandResult], arguments: list[str], message: str
) -> None:
    command = [argument.format(exported) for argument in arguments]
    assert message in cli(*command, stdin=b"hello\n").error_message
