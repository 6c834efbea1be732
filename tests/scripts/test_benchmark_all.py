"""All benchmarks in one go: the results of each, and what they depend on, in one file."""

from __future__ import annotations

import json
from pathlib import Path

import benchmark_all
import numpy as np
import pytest
from click.testing import CliRunner

BENCHMARK = """
import json, sys
print("| table |")
assert "broken" not in sys.argv, "broken"
json.dump({"arguments": sys.argv[1:-2]}, open(sys.argv[-1], "w"))
"""


@pytest.fixture
def benchmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    script.write_text(BENCHMARK, encoding="utf-8")
    commands = {
        "training-small": [str(script), "--size", "small"],
        "training-medium": [str(script), "broken"],
        "serving": [str(script), "{run}"],
    }
    monkeypatch.setattr(benchmark_all, "BENCHMARKS", commands)


@pytest.mark.usefixtures("benchmarks")
def test_results_are_written_though_one_fails(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    result = CliRunner().invoke(benchmark_all.main, ["--run", "latest", "--json", str(path)])
    assert result.exit_code == 1
    assert "training-medium failed" in result.output
    results = json.loads(path.read_text(encoding="utf-8"))
    arguments = {name: result["results"]["arguments"] for name, result in results["benchmarks"].items()}
    assert arguments == {"training-small": ["--size", "small"], "serving": ["latest"]}
    assert results["machine"]["cores"] >= 1
    assert results["machine"]["versions"]["numpy"] == np.__version__


@pytest.mark.usefixtures("benchmarks")
def test_a_benchmark_without_its_input(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    result = CliRunner().invoke(benchmark_all.main, ["--only", "serving", "--json", str(path)])
    assert result.exit_code == 2
    assert "serving: add --run NAME" in result.output
    assert not path.exists()
    result = CliRunner().invoke(benchmark_all.main, ["--json", str(path)])
    assert "skipped serving: add --run NAME" in result.output
    assert list(json.loads(path.read_text(encoding="utf-8"))["benchmarks"]) == ["training-small"]


def test_every_benchmark_exists() -> None:
    inputs = dict.fromkeys(benchmark_all.INPUTS, "x")
    for script, *arguments in benchmark_all.BENCHMARKS.values():
        assert (benchmark_all.SCRIPTS / script).is_file()
        assert all(argument.format(**inputs) for argument in arguments)
