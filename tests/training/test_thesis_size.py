"""The thesis's configurations, on generated corpora with vocabularies of their size."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

CONFIGS = Path(__file__).parents[2] / "configs"
GIGABYTE = 1e9
MEASURE = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], check=False).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""
"""Runs a command from a small process, as the peak memory of a process is at least that of the one that started it."""


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
    training = {"training.steps": 2, "training.log_every": 1, "training.validate_every": 1}
    settings: dict[str, object] = {**write_corpus(folder, words), "data.pairing": "sliding", **training}
    overrides = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return ["train", str(CONFIGS / f"{name}.json"), "--results", str(folder / "runs"), *overrides]


def losses(run: Path, kind: str) -> list[float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["kind"] == kind]


@pytest.mark.slow(minutes=2)
def test_two_steps_at_full_size(tmp_path: Path) -> None:
    words = 100_000
    training = ["-m", "seq2seq_chat", *two_steps("thesis_opensubtitles_100k", words, tmp_path)]
    command = [sys.executable, "-c", MEASURE, sys.executable, *training]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    *lines, kilobytes = result.stdout.splitlines()
    run = Path(lines[-1])
    sampled, exact = losses(run, "train"), losses(run, "validation")
    peak = int(kilobytes) * 1024
    (printed,) = (line for line in lines if re.match(r"about [\d.]+ GB of memory: ", line))
    estimate = float(printed.split()[1]) * GIGABYTE
    print(f"losses {sampled}, exact {exact}, peak resident {peak / GIGABYTE:.2f} GB, estimate {estimate / GIGABYTE}")
    assert len(sampled) == 2 and all(math.isfinite(loss) for loss in sampled)
    assert exact[1] < exact[0] < math.log(words)
    assert 0.85 * estimate < peak < estimate
