"""Language models from the command line: train, evaluate, generate, and what is refused."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.config import override_decoding
from seq2seq_chat.data.running_text import encode_text
from seq2seq_chat.engines.tensorflow.engine import load_trained_model
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.hardware import TENSORFLOW
from tests.conftest import CommandResult, run_command
from tests.reference_model import Reference

SETTINGS = """{
    "name": "tiny_text", "seed": 2, "task": "language_model", "data": {"tokenizer": "character"},
    "model": {"hidden_size": 12, "embedding_size": 6, "projection_size": null, "dropout": 0.1},
    "training": {
        "batch_size": 4, "steps": 12, "bptt_forward": 5, "optimizer": "adam", "learning_rate": 0.02, "log_every": 4,
        "validate_every": 6, "checkpoint_every": 6, "snapshot_every": 6, "sample_replies": 2
    }
}"""
TEXT = "the cat sat on the mat.\nthe dog sat on the log.\n" * 30


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    (folder / "train.txt").write_text(TEXT, encoding="utf-8")
    (folder / "validation.txt").write_text(TEXT[:700], encoding="utf-8")
    return write_config(folder)


def write_config(folder: Path, **sections: dict[str, Any]) -> Path:
    settings = json.loads(SETTINGS)
    settings["data"] |= {"train": str(folder / "train.txt"), "validation": str(folder / "validation.txt")}
    for section, values in sections.items():
        settings[section] |= values
    path = folder / "config.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained_text(config: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, CommandResult]:
    results = tmp_path_factory.mktemp("runs")
    result = run_command("train", config, "--results", results)
    assert result.status == 0, result
    return Run(result.out.splitlines()[-1]), result


def test_what_training_reports(trained_text: tuple[Run, CommandResult]) -> None:
    run, result = trained_text
    lines = list(read_json_lines(run.metrics_file))
    validations = [line for line in lines if line["kind"] == "validation"]
    assert [line["step"] for line in validations] == [6, 12]
    for line in validations:
        assert line["bits_per_token"] == pytest.approx(line["loss"] / math.log(2))
        assert line["perplexity"] == pytest.approx(math.exp(line["loss"]))
        assert line["tokens"] == 699
    assert [line["tokens"] for line in lines if line["kind"] == "train"] == [4 * 4 * 5] * 3
    assert "1,440 training tokens (0.0 % are <unknown>), 700 validation tokens; 4 streams of 359 tokens" in result.out
    assert "language_model (character)" in run_command("experiments", "list", "--results", run.results).out
    samples = list(read_json_lines(run.samples_file))
    assert [sample["step"] for sample in samples] == [6, 6, 12, 12]
    shown = [tuple(sample[key].replace("\n", "↵") for key in ("source", "reply")) for sample in samples]
    assert re.findall(r"^  (\S.*)\n    → (.*)$", result.out, re.MULTILINE) == shown
    for sample in samples:
        assert sample["source"] + sample["target"] in TEXT
        assert len(sample["reply"]) == len(sample["target"]) == 150


def test_the_loss_of_evaluate_is_that_of_numpy(trained_text: tuple[Run, CommandResult], tmp_path: Path) -> None:
    """From the saved weights; and the last validation had the same loss."""
    run, _ = trained_text
    json_file = tmp_path / "metrics.json"
    result = run_command("evaluate", run.path, "--json", json_file)
    assert result.status == 0, result
    metrics = json.loads(json_file.read_text(encoding="utf-8"))
    trained = load_trained_model(run)
    nats = Reference(trained.model).text_loss(encode_text(TEXT[:700], trained.codecs.source))
    assert metrics["loss"] == pytest.approx(float(np.mean(nats)), rel=1e-5)
    assert metrics["loss_bits"] == pytest.approx(float(np.mean(nats)) / math.log(2), rel=1e-5)
    assert f"{metrics['loss']:.4f}" in result.out
    assert "bits per character" in result.out
    last = [line for line in read_json_lines(run.metrics_file) if line["kind"] == "validation"][-1]
    assert last["loss"] == pytest.approx(metrics["loss"], rel=1e-6)


def test_generate(trained_text: tuple[Run, CommandResult]) -> None:
    """The same seed gives the same text, and a longer one begins with it."""
    run, _ = trained_text

    def generate(*options: object, stdin: bytes = b"") -> str:
        result = run_command("generate", run.path, "--seed", 5, *options, stdin=stdin)
        assert result.status == 0, result
        return result.out

    text = generate("--length", 70)
    assert len(text) == 70
    assert set(text) <= set(TEXT)
    assert generate("--length", 70) == text
    assert generate("--length", 40) == text[:40]
    assert generate("--length", 70, "--seed", 6) != text
    assert generate("--length", 70, "--snapshot", "6") != text
    prompted = generate("--length", 30, "--prompt", "the cat\nsat")
    assert generate("--length", 30, "--prompt", "-", stdin=b"the cat\r\nsat") == prompted
    greedy = generate("--length", 30, "--prompt", "the", "--top-k", 1)
    assert generate("--length", 30, "--prompt", "the", "--top-k", 1, "--seed", 9) == greedy
    assert generate("--length", 30, "--prompt", "the", "--temperature", 0.001) == greedy
    assert generate("--length", 30, "--prompt", "the", "--top-p", 0.0001) == greedy


def test_generated_characters_have_the_frequencies_of_the_model(trained_text: tuple[Run, CommandResult]) -> None:
    """Sample the first character after a prompt with many seeds; the probabilities are computed with NumPy."""
    run, _ = trained_text
    generator, count = Generator.load(run, engine=TENSORFLOW), 4000
    prompt = encode_text("the ", generator.codec)
    decoding = override_decoding(run.config.decoding, temperature=0.8)
    (block,) = generator.blocks([prompt] * count, 1, decoding, list(range(count)))
    logits = Reference(generator.engine.model).text_logits(prompt)[-1] / 0.8
    logits[:4] = -np.inf
    probabilities = np.exp(logits) / np.exp(logits).sum()
    frequencies = np.bincount(block.ids[:, 0], minlength=len(probabilities)) / count
    deviations = np.sqrt(probabilities * (1 - probabilities) / count)
    assert np.all(np.abs(frequencies - probabilities) <= 5 * deviations + 1e-3)


def test_a_prompt_with_unknown_characters(trained_text: tuple[Run, CommandResult]) -> None:
    result = run_command("generate", trained_text[0].path, "--prompt", "the Ö 12", "--length", 5)
    assert result.status == 0
    assert len(result.out) == 5
    assert "warning: the prompt has tokens that the model does not know: Ö, 1, 2" in result.err


@pytest.mark.parametrize(
    ("text", "sections", "message"),
    [
        (TEXT, {"data": {"train": "x.tsv"}}, r"data.train \(x.tsv\) has pairs; use a text file"),
        (TEXT, {"training": {"best_metric": "bleu"}}, "bleu applies to task translation only"),
        (TEXT, {"training": {"bptt_forward": 400}}, "4 streams of 359, but training.bptt_forward is 400"),
        (TEXT, {"training": {"bptt_backward": 400}}, "4 streams of 359, but training.bptt_backward is 400"),
        (TEXT, {"model": {"tie_embeddings": True}}, "set projection_size to 6"),
        ("abc", {}, "has 3 tokens, which makes 4 streams of 0, but training.bptt_forward is 5"),
        ("a" * 100, {}, "has only one distinct token, so there is nothing to learn"),
        ("", {}, "has fewer than two tokens"),
    ],
)
def test_settings_and_texts_that_do_not_fit(
    tmp_path: Path, text: str, sections: dict[str, dict[str, Any]], message: str
) -> None:
    for name, part in (("train.txt", text), ("validation.txt", text[:700])):
        (tmp_path / name).write_text(part, encoding="utf-8")
    result = run_command("train", write_config(tmp_path, **sections), "--results", tmp_path / "results")
    assert re.search(message, result.error_message)
    assert not list((tmp_path / "results").glob("*"))


def test_what_is_refused(
    trained_text: tuple[Run, CommandResult], config: Path, tmp_path: Path, trained: tuple[Path, CommandResult]
) -> None:
    path = trained_text[0].path
    assert "is a language model, which `chat` does not support" in run_command("chat", path).error_message
    options = (("--limit", 9), ("--beam-width", 3), ("--reference", path / "config.json"), ("--baseline", path))
    for option, value in options:
        assert f"{option} does not apply" in run_command("evaluate", path, option, value).error_message
    message = run_command("generate", trained[0]).error_message
    assert "is not a language model: its task is conversation; use seq2seq-chat chat" in message
    for setting in ("training.batch_size=2", "training.bptt_forward=4", "training.bptt_backward=9"):
        message = run_command("train", "--resume", path, "--set", setting).error_message
        assert setting.partition("=")[0] in message  # the streams cannot change
    message = run_command("train", config, "--init-from", path, "--results", tmp_path).error_message
    assert "--init-from does not apply to language models" in message
