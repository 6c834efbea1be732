"""The thesis's configurations, on generated corpora with vocabularies of their size."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CONFIGS = Path(__file__).parents[2] / "configs"
GIGABYTE = 1e9
SMALL = {
    "model.hidden_size": 24,
    "model.embedding_size": 12,
    "model.projection_size": 16,
    "model.encoder_steps": 6,
    "model.decoder_steps": 6,
}


def write_corpus(folder: Path, words: int) -> dict[str, Path]:
    """A vocabulary of ``words`` words, and 64 samples of 25 of them with frequencies as in language."""
    names = [f"word{number}" for number in range(words - 4)]
    rng = np.random.default_rng(1)
    ranks = np.minimum(rng.zipf(1.2, (65, 25)) - 1, words - 5)
    corpus, vocabulary = folder / "corpus.txt", folder / "vocabulary.txt"
    corpus.write_text("".join(" ".join(names[rank] for rank in line) + "\n" for line in ranks))
    vocabulary.write_text("\n".join(["<pad>", "<go>", "<eos>", "<unknown>", *names]) + "\n")
    return {"data.train": corpus, "data.validation": corpus, "data.vocabulary": vocabulary}


def two_steps(name: str, words: int, folder: Path) -> list[str]:
    """The arguments that train for two steps."""
    settings: dict[str, object] = {
        **write_corpus(folder, words),
        "data.pairing": "sliding",
        "training.steps": 2,
        "training.log_every": 1,
        "training.validate_every": 1,
    }
    overrides = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return ["train", str(CONFIGS / f"{name}.json"), "--results", str(folder / "runs"), *overrides]


def losses(run: Path, kind: str) -> list[float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["kind"] == kind]


@pytest.mark.slow(minutes=2)
def test_two_steps_at_full_size(tmp_path: Path) -> None:
    """In a separate process, whose peak memory is measured."""
    words = 100_000
    command = [sys.executable, "-m", "seq2seq_chat", *two_steps("thesis_opensubtitles_100k", words, tmp_path)]
    with open(tmp_path / "output", "w+") as output, open(tmp_path / "errors", "w+") as errors:
        training = subprocess.Popen(command, stdout=output, stderr=errors)
        _, status, usage = os.wait4(training.pid, 0)
        training.returncode = os.waitstatus_to_exitcode(status)
    assert training.returncode == 0, (tmp_path / "errors").read_text()
    lines = (tmp_path / "output").read_text().splitlines()
    run = Path(lines[-1])
    sampled, exact = losses(run, "train"), losses(run, "validation")
    peak = usage.ru_maxrss * 1024
    (printed,) = (line for line in lines if re.match(r"about [\d.]+ GB of memory: ", line))
    estimate = float(printed.split()[1]) * GIGABYTE
    print(f"losses {sampled}, exact {exact}, peak resident {peak / GIGABYTE:.2f} GB, estimate {estimate / GIGABYTE}")
    assert len(sampled) == 2 and all(math.isfinite(loss) for loss in sampled)
    assert exact[1] < exact[0] < math.log(words)
    assert 0.85 * estimate < peak < estimate


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("thesis_to_the_letter", 50_000),
        pytest.param("thesis_reddit", 50_000, marks=pytest.mark.nightly),
        pytest.param("thesis_reddit_25k", 25_000, marks=pytest.mark.nightly),
    ],
)
def test_two_steps_with_small_cells(cli: Callable[..., Any], name: str, words: int, tmp_path: Path) -> None:
    small = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    result = cli(*two_steps(name, words, tmp_path), *small, "--set", "training.learning_rate=0.1")
    assert result.status == 0, result
    run = Path(result.out.splitlines()[-1])
    sampled, exact = losses(run, "train"), losses(run, "validation")
    assert len(sampled) == 2 and all(math.isfinite(loss) for loss in sampled)
    assert exact[1] < exact[0] < 1.1 * math.log(words)
