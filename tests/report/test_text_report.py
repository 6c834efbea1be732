"""The report on language models."""

from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.config import override_decoding
from seq2seq_chat.engines.tensorflow.engine import load_trained_model
from seq2seq_chat.report.evaluate import evaluate_language_model
from seq2seq_chat.report.figures.model_internals import gradient_by_distance
from seq2seq_chat.runs.run import Run
from tests.conftest import Cli
from tests.random_runs import random_language_run

TEXT = "the cat sat on the mat.\n" * 40
PROMPTS = ("the cat", "on the")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return random_language_run(tmp_path_factory.mktemp("runs") / "run", TEXT, steps=(3, 7))


def write_report(cli: Cli, run: Run, folder: Path) -> str:
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    (folder / "prompts.txt").write_text("\n".join(PROMPTS), encoding="utf-8")
    files = ["--data", folder / "text.txt", "--questions", folder / "prompts.txt", "--output", folder / "page.html"]
    result = cli("report", run.path, *files, "--set", "decoding.temperature=0.5")
    assert result.status == 0, result.err
    assert result.out.splitlines()[-1] == str(folder / "page.html")
    return unescape((folder / "page.html").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_every_snapshot_has_its_loss_and_its_texts(cli: Cli, run: Run, tmp_path: Path) -> None:
    page = write_report(cli, run, tmp_path)
    decoding = override_decoding(run.config.decoding, temperature=0.5)
    for snapshot in run.snapshots():
        loss = evaluate_language_model(run, tmp_path / "text.txt", snapshot)["loss"]
        assert f">{loss:,.3f}</td>" in page
        generator = Generator.load(run, snapshot)
        for prompt in PROMPTS:
            text = "".join(generator.stream(prompt, 300, decoding, seed=1))
            assert f'<pre tabindex="0">{prompt}{text}</pre>' in page
    assert len(set(run.snapshots())) == 2 and f"{run.name}, 3, prompt 1, by sampling, temperature 0.5" in page
    assert (tmp_path / "page_pictures" / "random_gradients.png").is_file()
    assert "has no metrics" in page  # no learning curves without training


def test_gradients_are_those_of_finite_differences(run: Run) -> None:
    model = load_trained_model(run).model
    tokens, target, size = [4, 6, 5, 7, 8], 9, 1e-2  # every token once, so that its vector is that of one distance
    table = model.target_embedding.table
    original = table.numpy()

    def loss(row: int, dimension: int, change: float) -> float:
        changed = original.copy()
        changed[row, dimension] += change
        table.assign(changed)
        hidden, _ = model.read(tf.constant([tokens]), model.start(1))
        logits = model.output.logits(hidden[-1]).numpy()[0].astype(np.float64)
        return float(np.log(np.exp(logits).sum()) - logits[target])

    expected = [
        np.linalg.norm([(loss(row, d, size) - loss(row, d, -size)) / (2 * size) for d in range(original.shape[1])])
        for row in reversed(tokens)
    ]
    table.assign(original)
    norms = gradient_by_distance(model, np.array([tokens], np.int32), np.array([target]))
    np.testing.assert_allclose(norms, expected, rtol=0.02)


def test_other_runs_have_another_report(cli: Cli, run: Run, trained: tuple[Path, Any], tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    message = cli("report", run.path, trained[0], "--output", output).error_message
    assert "language models and other runs have different reports: write one for each kind" in message
    for option, value in (("--limit", 9), ("--sent2vec", output), ("--transcript", output), ("--liked", output)):
        message = cli("report", run.path, option, value, "--output", output).error_message
        assert f"is a language model, to which {option} does not apply" in message
    assert not output.exists()
