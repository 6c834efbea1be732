"""The thesis's own configuration at full size, on made-up corpora of 50,000 and 100,000 words."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

CONFIGS = Path(__file__).parents[2] / "configs"
GIGABYTE = 1e9


def write_corpus(folder: Path, words: int) -> dict[str, Path]:
    """A vocabulary of ``words`` words, and 64 samples of 25 of them, frequent ones more often, as in language."""
    names = [f"word{number}" for number in range(words - 4)]
    rng = np.random.default_rng(1)
    ranks = np.minimum(rng.zipf(1.2, (65, 25)) - 1, words - 5)
    corpus, vocabulary = folder / "corpus.txt", folder / "vocabulary.txt"
    corpus.write_text("".join(" ".join(names[rank] for rank in line) + "\n" for line in ranks))
    vocabulary.write_text("\n".join(["<pad>", "<go>", "<eos>", "<unknown>", *names]) + "\n")
    return {"data.train": corpus, "data.validation": corpus, "data.vocabulary": vocabulary}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "words"), [("thesis_opensubtitles_100k", 100_000), ("thesis_reddit", 50_000)])
def test_two_steps_at_full_size(name: str, words: int, tmp_path: Path) -> None:
    settings = write_corpus(tmp_path, words) | {
        "data.pairing": "sliding",
        "training.steps": 2,
        "training.log_every": 1,
        "training.validate_every": 1,
    }
    command = [sys.executable, "-m", "seq2seq_chat", "train", CONFIGS / f"{name}.json", "--results", tmp_path / "runs"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    with open(tmp_path / "said", "w+") as said, open(tmp_path / "complaint", "w+") as complaint:
        training = subprocess.Popen([str(part) for part in command], stdout=said, stderr=complaint)
        _, status, usage = os.wait4(training.pid, 0)
        training.returncode = os.waitstatus_to_exitcode(status)
    assert training.returncode == 0, (tmp_path / "complaint").read_text()
    run = Path((tmp_path / "said").read_text().splitlines()[-1])
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if line["kind"] == "train"]
    exact = [line["loss"] for line in lines if line["kind"] == "validation"]
    peak = usage.ru_maxrss * 1024
    print(f"{name}: losses {losses}, exact {exact}, peak resident {peak / GIGABYTE:.2f} GB")
    assert len(losses) == 2 and all(math.isfinite(loss) for loss in losses)
    assert exact[1] < exact[0] < math.log(words)
    assert peak < (4.2 + 1.6 * words / 100_000) * GIGABYTE  # four matrices of 1024 float32 a word
