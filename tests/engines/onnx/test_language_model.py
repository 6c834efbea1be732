"""An exported language model writes and scores what its run does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.chat.load import TENSORFLOW
from seq2seq_chat.chat.rerank import LanguageModelScorer
from seq2seq_chat.config import Decoding
from seq2seq_chat.export.onnx.export import export_onnx
from seq2seq_chat.runs.run import Run
from seq2seq_chat.search.engine import ALL_PROBABILITY, ALL_WORDS, WordDistribution
from tests.random_runs import random_language_run
from tests.reference_model import Reference

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")
TEXT = "the cat sat on the mat.\n\nthe dog saw it? Groß und süß!"
PROMPTS = ("the cat", "", "a long prompt\nwith ☃ unknown characters")


@pytest.fixture(scope="module", params=["character", "english", "subword", "unicode"])
def generators(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Generator]:
    """Of a run and of its exported model."""
    folder = tmp_path_factory.mktemp("language")
    run = random_language_run(folder / "results", TEXT, tokenizer=request.param)
    export_onnx(run, folder / "exported")
    return [Generator.load(run, engine=TENSORFLOW), Generator.load(Run(folder / "exported"))]


@pytest.mark.parametrize("settings", [{}, {"temperature": 3.0, "top_k": 5}, {"top_p": 0.7, "allow_unknown": True}])
def test_texts_and_probabilities(generators: list[Generator], settings: dict[str, Any]) -> None:
    decoding = Decoding(method="sample", **settings)
    for seed, prompt in enumerate(PROMPTS):
        ours, exported = (
            [token for block in generator.explained_stream(prompt, 70, decoding, seed) for token in block]
            for generator in generators
        )
        assert [token.text for token in ours] == [token.text for token in exported]
        for one, other in zip(ours, exported, strict=True):
            assert one.probability == pytest.approx(other.probability, rel=1e-4, abs=1e-7)
            assert [a.text for a in one.alternatives] == [a.text for a in other.alternatives]


@pytest.mark.parametrize("number", [0, 1], ids=["run", "exported"])
def test_explained_tokens_have_the_probabilities_of_numpy(generators: list[Generator], number: int) -> None:
    """Of the sampled token and of the most probable ones, among those that may be written."""
    engine, reference = generators[number].engine, Reference(generators[0].engine.model)  # type: ignore[attr-defined]
    uniform = np.random.default_rng(1).random([2, 20])
    first, forbidden = np.array([5, 6], np.int32), (0, 1, 3)
    flat = WordDistribution(5.0, ALL_WORDS, ALL_PROBABILITY)
    block, _ = engine.sample_block(first, engine.start(2), uniform, flat, forbidden, True)
    for row in range(2):
        logits = reference.text_logits([int(first[row]), *block.ids[row, :-1].tolist()])
        logits[:, forbidden] = -np.inf
        expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        words = np.concatenate([block.most_probable[row], block.ids[row][:, np.newaxis]], axis=1)
        np.testing.assert_allclose(block.probabilities[row], np.take_along_axis(expected, words, axis=1), rtol=2e-3)
        np.testing.assert_array_equal(words[:, :5], np.argsort(-logits, axis=1)[:, :5])
    assert len(set(block.ids.ravel().tolist())) > 3


def test_scores(generators: list[Generator]) -> None:
    size = generators[0].engine.vocabulary_size
    tokens = np.random.default_rng(2).integers(4, size, 1500)
    ours, exported = (LanguageModelScorer(generator.engine).score(tokens) for generator in generators)
    assert ours.nats == pytest.approx(exported.nats, rel=1e-5)
    assert (ours.tokens, ours.correct) == (exported.tokens, exported.correct)


def test_the_example_of_the_readme_writes(tmp_path: Path) -> None:
    run = random_language_run(tmp_path / "results", TEXT)
    export_onnx(run, tmp_path / "exported")
    text = (tmp_path / "exported" / "README.txt").read_text()
    program = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    "))
    program = program[program.index("import json") :]
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path / "exported", text=True, capture_output=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert len(finished.stdout) > 200
    assert not re.search("<(pad|go|eos|unknown)>", finished.stdout)
