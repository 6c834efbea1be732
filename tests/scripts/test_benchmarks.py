"""The benchmarks run at a tiny size and write their results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
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


@pytest.mark.slow
def test_benchmark_building(tmp_path: Path) -> None:
    config = str(SCRIPTS.parent / "configs" / "copy_task.json")
    steps = ["--source-steps", "2", "--target-steps", "3", "--graphs", "1"]
    results = run("benchmark_building.py", config, *steps, folder=tmp_path)
    assert results["operations"] > 100 and results["tracing s"] > 0 and results["first call s"] > 0


@pytest.mark.parametrize(
    "widths",
    [pytest.param([5], marks=pytest.mark.slow), pytest.param([1, 5, 10], marks=pytest.mark.exhaustive)],
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
def test_benchmark_distribution_computes_traffic(tmp_path: Path) -> None:
    """The thesis model, counted by hand: gradients of embeddings are sent as rows, all others as dense tensors."""
    config = str(SCRIPTS.parent / "configs" / "thesis_reddit.json")
    results = run("benchmark_distribution.py", config, "--rounds", "0", folder=tmp_path)
    hidden, embedding, gates = 2048, 1024, 4 * 2048
    encoder = (embedding + hidden + 1) * gates
    decoder = (embedding + 2 * hidden + 1) * gates
    attention = 2 * hidden * hidden + hidden + 2 * hidden * hidden  # W1, W2, v and W_c
    projection = hidden * 1024
    dense = 4 * (encoder + decoder + attention + projection)
    samples = 64 // 8
    rows = 2 * samples * 30 * (4 * embedding + 8) + (samples * 30 + 512) * (4 * 1024 + 8 + 4 + 8)
    row = results["computed"][0]
    assert row["devices"].startswith("8 GPUs")
    assert row["batch"] == "64 (divided)"
    assert row["dense MB"] == pytest.approx(dense / 1e6, rel=1e-3)
    assert row["sparse MB"] == pytest.approx(rows / 1e6, rel=1e-3)
    assert row["sent MB"] == pytest.approx((2 * 7 / 8 * dense + 7 * rows) / 1e6, rel=1e-3)


@pytest.mark.exhaustive
def test_benchmark_distribution_times_two_workers(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    config = str(SCRIPTS.parent / "configs" / "thesis_reddit.json")
    small = ["--hidden", "16", "--rounds", "1", "--steps", "10"]
    (row,) = run("benchmark_distribution.py", config, *small, folder=tmp_path)["measured"]
    assert row["speedup"] == f"{row['one core ms'] / row['two workers ms']:.2f}"
    assert row["waiting ms"] == pytest.approx(row["two workers ms"] - row["half a batch ms"])


@pytest.mark.slow
def test_benchmark_language_model(tmp_path: Path) -> None:
    results = run("benchmark_language_model.py", "--size", "tiny", "--steps", "2", folder=tmp_path)
    rows = {row["contender"]: row for row in results["contenders"]}
    assert rows["ours, float32"]["ours is"] == 1
    for row in rows.values():
        assert row["first losses"] == pytest.approx(rows["ours, float32"]["first losses"], rel=1e-2)
        assert row["tokens/s"] == pytest.approx(4 * 5 / row["ms"] * 1e3)


@pytest.mark.slow
def test_benchmark_generation(tmp_path: Path) -> None:
    results = run("benchmark_generation.py", "--hidden-size", "64", "--length", "32", "--turns", "1", folder=tmp_path)
    assert [row["texts"] for row in results["results"]] == [1, 64]
    for row in results["results"]:
        assert row["tokens/s"] == pytest.approx(row["texts"] / row["µs per step"] * 1e6)
        assert row["product, % of step"] > 0


@pytest.mark.slow
def test_benchmark_products(tmp_path: Path) -> None:
    results = run("benchmark_products.py", "--rows", "2", "--rows", "30", "--turns", "1", folder=tmp_path)["results"]
    assert [row["rows"] for row in results] == [2, 30] * len({row["matrix"] for row in results})
    assert all(value > 0 for row in results for column, value in row.items() if column.endswith("µs"))


@pytest.mark.slow
def test_benchmark_engines(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed")
    options = ("--reddit-mb", "1", "--rounds", "1", "--folder", str(tmp_path / "dumps"))
    duckdb, spark = run("benchmark_engines.py", *options, folder=tmp_path)
    assert (duckdb["engine"], spark["engine"]) == ("duckdb", "spark")
    assert all(row["MB/s"] == pytest.approx(row["MB"] / row["s"]) and 1 <= row["MB"] < 1.01 for row in (duckdb, spark))
