"""All benchmarks in one go: the results of each, and what they depend on, in one file."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import benchmark_all
import click
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
    arguments = {"training-small": ["--size", "small"], "training-medium": ["broken"], "serving": ["{run}"]}
    commands = {name: [str(script), *words] for name, words in arguments.items()}
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
    assert results["machine"]["packages"]["numpy"] == np.__version__


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


def test_every_script_has_the_options_it_is_called_with() -> None:
    inputs = dict.fromkeys(benchmark_all.INPUTS, "x")
    for script, *arguments in benchmark_all.BENCHMARKS.values():
        main = importlib.import_module(script.removesuffix(".py")).main
        parser = main.make_parser(click.Context(main))
        parser.parse_args([argument.format(**inputs) for argument in [*arguments, "--json", "x"]])
