"""Evaluation with and without the samples that occur in the training corpus."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.report.evaluate import evaluate
from seq2seq_chat.runs.run import Run
from tests.conftest import MARKER, Cli, edit_config

pytestmark = pytest.mark.usefixtures("tiny_run", "unoptimized_graphs")


def read_pairs(path: Path) -> list[tuple[str, str]]:
    conversations = path.read_text(encoding="utf-8").split(MARKER)
    lines = [conversation.split("\n") for conversation in conversations]
    texts = [[line for line in conversation if line.strip()] for conversation in lines]
    return [(c[i], c[i + 1]) for c in texts for i in range(0, len(c) - 1, 2)]


def write_pairs(path: Path, samples: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{source}\n{target}\n{MARKER}\n" for source, target in samples), encoding="utf-8")
    return path


@pytest.fixture
def mixed(corpora: Path) -> dict[str, list[tuple[str, str]]]:
    """Samples of train, new sources with targets of train, and new samples."""
    train = read_pairs(corpora / "train.txt")
    known = {target for _, target in train}
    new = [(f"w{n} w{n + 1} w{n + 2} {n}", f"w{n} ? {n}") for n in range(9)]
    assert not known & {target for _, target in new}
    return {
        "leaked": train[:7],
        "targets": [(f"{n} w1 w2", target) for n, (_, target) in enumerate(train[9:14])],
        "new": new,
    }


def assert_equal_metrics(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Losses are rounded differently in other batches."""
    assert first.keys() <= second.keys()
    for key, value in first.items():
        if isinstance(value, float):
            assert second[key] == pytest.approx(value, rel=1e-5), key
        else:
            assert second[key] == value, key


@pytest.mark.slow
def test_the_rest_is_evaluated_as_in_a_file_of_its_own(run_copy: Path, mixed: Any, tmp_path: Path) -> None:
    run = Run(run_copy)
    samples = [sample for kind in mixed.values() for sample in kind]
    order = np.random.default_rng(3).permutation(len(samples))
    samples = [samples[n] for n in order]
    metrics = evaluate(run, write_pairs(tmp_path / "all.txt", samples))
    assert (metrics["samples"], metrics["leaked_samples"], metrics["leaked_targets"]) == (21, 7, 12)
    assert metrics["leakage_error"] is None
    for key, kinds in {"without_leaked": ("targets", "new"), "without_leaked_targets": ("new",)}.items():
        rest = [sample for sample in samples if any(sample in mixed[kind] for kind in kinds)]
        alone = evaluate(run, write_pairs(tmp_path / f"{key}.txt", rest))
        assert_equal_metrics(metrics[key], alone)
        assert metrics[key]["samples"] == len(rest)
    assert not alone["leaked_targets"]


def test_evenly_spaced_samples(run_copy: Path, mixed: Any, tmp_path: Path) -> None:
    """Every second sample of a file in which leaked and new ones alternate."""
    alternating = [sample for pair in zip(mixed["new"], mixed["leaked"], strict=False) for sample in pair]
    data = write_pairs(tmp_path / "all.txt", alternating)
    chosen = [alternating[n] for n in evenly_spaced(len(alternating), 5)]
    metrics = evaluate(Run(run_copy), data, limit=5)
    assert metrics["leaked_samples"] == sum(sample in mixed["leaked"] for sample in chosen)
    assert metrics["without_leaked"]["samples"] == 5 - metrics["leaked_samples"]


def test_nothing_or_everything_leaks(cli: Cli, run_copy: Path, mixed: Any, corpora: Path, tmp_path: Path) -> None:
    nothing = evaluate(Run(run_copy), write_pairs(tmp_path / "new.txt", mixed["new"]))
    assert nothing["leaked_samples"] == nothing["leaked_targets"] == 0
    assert nothing["without_leaked"].items() <= nothing.items()
    result = cli("evaluate", run_copy, "--data", corpora / "train.txt", "--limit", 9, "--json", tmp_path / "m.json")
    assert (result.status, result.err) == (0, "")
    metrics = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    assert metrics["leaked_samples"] == metrics["leaked_targets"] == metrics["samples"] == 9
    assert metrics["without_leaked"] is None and metrics["without_leaked_targets"] is None
    assert "9 of 9 samples (100.00%)" in result.out
    lines = Path(metrics["predictions"]).read_text(encoding="utf-8").splitlines()[1:]
    known = {target for _, target in read_pairs(corpora / "train.txt")}
    copied = sum(json.loads(line)["reply_tokens"] in known for line in lines)
    assert metrics["copies"] == {"replies": copied, "private": 0, "examples": []}
    assert f"{copied} of 9 replies ({copied / 9:.2%}) are word for word in the training corpus, 0 of" in result.out


def test_columns_of_the_command(cli: Cli, run_copy: Path, mixed: Any, tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "data.txt", mixed["leaked"][:2] + mixed["new"][:3])
    result = cli("evaluate", run_copy, "--data", data, "--json", tmp_path / "m.json")
    metrics = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    (row,) = (line for line in result.out.splitlines() if line.startswith("perplexity"))
    assert row.split()[1::3] == [f"{metrics['perplexity']:.2f}", f"{metrics['without_leaked']['perplexity']:.2f}"]
    (row,) = (line for line in result.out.splitlines() if line.startswith("samples  "))
    assert row.split() == ["samples", "5", "3", "3"]


def test_missing_training_corpus(cli: Cli, run_copy: Path, corpora: Path, tmp_path: Path) -> None:
    edit_config(run_copy, "data", train="moved/away.txt")
    result = cli("evaluate", run_copy, "--limit", 5, "--json", tmp_path / "m.json")
    assert result.status == 0
    metrics = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    assert {metrics[name] for name in ("leaked_samples", "leaked_targets", "without_leaked", "copies")} == {None}
    assert "moved/away.txt" in metrics["leakage_error"]
    assert metrics["sent2vec_distance"] is None and "--sent2vec" in metrics["sent2vec"]
    assert metrics["bleu"] is not None
    (line,) = (line for line in result.out.splitlines() if line.startswith("leakage"))
    assert "unknown: " in line and "moved/away.txt" in line
