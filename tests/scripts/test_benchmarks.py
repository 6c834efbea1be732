"""The benchmarks run at a tiny size and write their results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def run(script: str, *arguments: str, folder: Path) -> Any:
    results = folder / "results.json"
    command = [sys.executable, str(SCRIPTS / script), *arguments, "--json", str(results)]
    environment = os.environ | {"PYTHONPATH": str(SCRIPTS.parent)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("| ")
    return json.loads(results.read_text())


@pytest.mark.slow
def test_benchmark_training(tmp_path: Path) -> None:
    results = run("benchmark_training.py", "--size", "tiny", "--steps", "2", folder=tmp_path)
    labels = {row["contender"] for row in results["contenders"]}
    assert {"ours, float32", "ours, plain automatic differentiation"} <= labels
    for row in results["contenders"]:
        assert row["loss"] == pytest.approx(results["contenders"][0]["loss"], rel=1e-2)
        assert row["GFLOP/s"] == pytest.approx(row["% of peak"] / 100 * row["peak GFLOP/s"])
        assert len(row["seconds"]) == 2 and row["first step s"] > max(row["seconds"]) and row["GB"] > 0.1


@pytest.mark.parametrize(
    "widths",
    [pytest.param([5], marks=pytest.mark.slow), pytest.param([1, 5, 10], marks=pytest.mark.nightly)],
)
def test_benchmark_decoding(tmp_path: Path, widths: list[int]) -> None:
    options = [option for width in widths for option in ("--beam-width", str(width))]
    results = run("benchmark_decoding.py", "--size", "tiny", "--calls", "3", *options, folder=tmp_path)
    kinds = [(row["search"], row["batch"]) for row in results["searches"] if row["contender"] == "ours"]
    searches = ["greedy" if width == 1 else f"beam {width}" for width in widths]
    assert kinds == [(search, batch) for batch in (1, 32) for search in searches]
    assert all(0 < row["% of limit"] < 100 for row in results["searches"])
    assert all(row["95 % ms"] >= row["median ms"] > 0 for row in results["searches"])


@pytest.mark.slow
def test_benchmark_language_model(tmp_path: Path) -> None:
    """Training and generating."""
    results = run("benchmark_language_model.py", "--size", "tiny", "--steps", "2", folder=tmp_path)
    rows = {row["contender"]: row for row in results["contenders"]}
    assert rows["ours, float32"]["ours is"] == 1
    for row in rows.values():
        assert row["first losses"] == pytest.approx(rows["ours, float32"]["first losses"], rel=1e-2)
        assert row["tokens/s"] == pytest.approx(4 * 5 / row["ms"] * 1e3)
    options = ("--generate", "--hidden-size", "64", "--length", "32")
    results = run("benchmark_language_model.py", *options, folder=tmp_path)
    assert [row["texts"] for row in results["results"]] == [1, 64]
    for row in results["results"]:
        assert row["tokens/s"] == pytest.approx(row["texts"] / row["µs per step"] * 1e6)
        assert row["product, % of step"] > 0


@pytest.mark.slow
def test_benchmark_prepare(tmp_path: Path) -> None:
    options = ("--reddit-mb", "1", "--opensubtitles-mb", "0", "--rounds", "1", "--folder", str(tmp_path / "dumps"))
    half, full = run("benchmark_prepare.py", *options, folder=tmp_path)
    assert 0.5 <= half["MB"] < 0.51 and 1 <= full["MB"] < 1.01
    assert float(full["MB/s"]) == pytest.approx(full["MB"] / median(full["seconds"]), abs=0.05)
