"""The benchmarks run, at a size that says nothing about speed, and write their figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def run(script: str, *arguments: str, folder: Path) -> dict[str, Any]:
    figures = folder / "figures.json"
    command = [sys.executable, str(SCRIPTS / script), *arguments, "--json", str(figures)]
    environment = os.environ | {"PYTHONPATH": str(SCRIPTS.parent)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("| ")
    content: dict[str, Any] = json.loads(figures.read_text())
    return content


@pytest.mark.slow
def test_training_steps_of_all_contenders_are_timed(tmp_path: Path) -> None:
    figures = run("benchmark_training.py", "--size", "tiny", "--steps", "2", folder=tmp_path)
    labels = {row["contender"] for row in figures["contenders"]}
    assert {"ours, float32", "ours, plain automatic differentiation"} <= labels
    for row in figures["contenders"]:
        assert row["loss"] == pytest.approx(figures["contenders"][0]["loss"], rel=1e-2)
        assert row["GFLOP/s"] == pytest.approx(row["% of peak"] / 100 * row["peak GFLOP/s"])
        assert len(row["seconds"]) == 2 and row["first step s"] > max(row["seconds"]) and row["GB"] > 0.1


@pytest.mark.slow
def test_searches_are_timed(tmp_path: Path) -> None:
    figures = run("benchmark_decoding.py", "--size", "tiny", "--calls", "3", folder=tmp_path)
    kinds = [(row["search"], row["at once"]) for row in figures["searches"] if row["contender"] == "ours"]
    assert kinds == [("greedy", 1), ("beam 10", 1), ("greedy", 32), ("beam 10", 32)]
    assert all(row["95 % ms"] >= row["median ms"] > 0 for row in figures["searches"])
