"""Exported models reply to German as the run does, whatever its tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.load import TENSORFLOW
from seq2seq_chat.config import Decoding
from seq2seq_chat.export.onnx import export_onnx
from seq2seq_chat.runs.run import Run
from tests.conftest import CommandResult
from tests.engines.onnx.commands import run
from tests.german import TEXTS, TOKENIZERS, german_model
from tests.random_runs import random_run

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")


@pytest.fixture(scope="module", params=TOKENIZERS, ids=str)
def german_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with a random model."""
    german = random_run(tmp_path_factory.mktemp("german") / "results", *german_model(request.param))
    export_onnx(german, german.path / "exported")
    return german


@pytest.mark.slow(minutes=1)
def test_replies(german_run: Run) -> None:
    ours, theirs = Chatbot.load(german_run, engine=TENSORFLOW), Chatbot.load(Run(german_run.path / "exported"))
    distinct = set()
    for decoding in Decoding(), Decoding(method="beam", beam_width=5, n_best=5):
        pairs = zip(ours.replies(TEXTS, decoding), theirs.replies(TEXTS, decoding), strict=True)
        for expected, found in pairs:
            assert (found.text, found.source_words) == (expected.text, expected.source_words)
            assert found.unknown_words == expected.unknown_words
            assert [one.text for one in found.hypotheses] == [one.text for one in expected.hypotheses]
            for one, other in zip(found.hypotheses, expected.hypotheses, strict=True):
                # large random weights amplify the rounding of sums
                assert one.score == pytest.approx(other.score, abs=1e-3)
            distinct.add(found.text)
    assert len(distinct) > 3


@pytest.mark.slow(minutes=1)
def test_commands_need_only_the_required_packages(
    german_run: Run, cli: Callable[..., CommandResult], tmp_path: Path
) -> None:
    exported, config = german_run.path / "exported", german_run.config
    stdin = "\n".join([*TEXTS, ""])
    found = run("chat", exported, stdin=stdin, config=config)
    assert found.returncode == 0, found.stderr
    assert found.stdout == cli("chat", german_run.path, stdin=stdin.encode()).out
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(TEXTS * 2), encoding="utf-8")
    metrics = []
    for model in (exported, german_run.path):
        options = ["--data", corpus, "--output", tmp_path / model.name, "--json", tmp_path / f"{model.name}.json"]
        assert cli("evaluate", model, *options).status == 0
        contents = json.loads((tmp_path / f"{model.name}.json").read_text(encoding="utf-8"))
        metrics.append({name: value for name, value in contents.items() if isinstance(value, int | float)})
    assert metrics[0] == pytest.approx(metrics[1], rel=1e-4)
