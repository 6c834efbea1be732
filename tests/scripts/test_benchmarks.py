"""The benchmarks run at a tiny size and write their results; all in one go; what they count; and a dry run on a GPU."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import benchmark_all
import click
import numpy as np
import pytest
from click.testing import CliRunner
from contenders.workload import Size

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
    "widths", [pytest.param([5], marks=pytest.mark.slow), pytest.param([1, 5, 10], marks=pytest.mark.nightly)]
)
def test_benchmark_decoding(tmp_path: Path, widths: list[int]) -> None:
    options = [option for width in widths for option in ("--beam-width", str(width))]
    results = run("benchmark_decoding.py", "--size", "tiny", "--calls", "3", *options, folder=tmp_path)
    kinds = [(row["search"], row["batch"]) for row in results["searches"] if row["contender"] == "ours"]
    searches = ["greedy" if width == 1 else f"beam {width}" for width in widths]
    assert kinds == [(search, batch) for batch in (1, 32) for search in searches]
    assert all(0 < row["% of limit"] < 100 for row in results["searches"])
    assert all(row["95 % ms"] >= row["median ms"] > 0 for row in results["searches"])


@pytest.mark.nightly
def test_benchmark_recipes(tmp_path: Path) -> None:
    """The products of a model of dates: by hand, from the sizes of the configuration."""
    config = SCRIPTS.parent / "configs" / "recipes" / "dates.json"
    (row,) = run("benchmark_recipes.py", str(config), "--steps", "8", "--precision", "float32", folder=tmp_path)["rows"]
    pairs = [line.split("\t") for line in (SCRIPTS.parent / "configs/sample/dates_train.tsv").read_text().splitlines()]
    of_source = 2 * (32 + 64) * 4 * 64 + 128 * 64
    of_target = (32 + 64 + 64) * 4 * 64 + 64 * 64 + (128 + 64) * 64 + 64 * (4 + len("0123456789-"))
    ratio = sum(len(source) for source, _ in pairs) / sum(len(target) + 1 for _, target in pairs)
    expected = 6e-9 * row["target tokens/s"] * (of_source * ratio + of_target)
    assert row["GFLOP/s"] == pytest.approx(expected, rel=0.02)
    assert 0 < row["% of peak"] < 100


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
    assert len(half["seconds"]) == len(full["seconds"]) == 1
    assert 0.5 <= half["MB"] < 0.51 and 1 <= full["MB"] < 1.01
    assert float(full["MB/s"]) == pytest.approx(full["MB"] / median(full["seconds"]), abs=0.05)


@pytest.mark.nightly
def test_dry_run_without_a_gpu(tmp_path: Path) -> None:
    folder = tmp_path / "verified"
    command = [str(SCRIPTS / "verify_gpu.sh"), "--folder", str(folder)]
    refused = run_without_gpu(command)
    assert refused.returncode == 1
    assert "no GPU found" in refused.stdout
    assert "there is no GPU to verify; --cpu does a dry run without one" in refused.stderr
    assert not folder.exists()

    verified = run_without_gpu([*command, "--cpu"])
    assert verified.returncode == 0, verified.stdout + verified.stderr
    rows = {row["what"]: row for row in json.loads((folder / "summary.json").read_text(encoding="utf-8"))}
    assert set(rows) == {"checks", "benchmark", "a batch", "loss after 200 steps", "peak memory", "two runs"}
    assert all(row["passed"] == "yes" for row in rows.values())
    assert rows["two runs"]["measured"] == "equal"


def run_without_gpu(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command with the Python of these tests first on the path, and without a GPU, also where there is one."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1500)


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


SMALL = Size(embedding=3, hidden=2, projection=5, vocabulary=50, sampled=7, batch=1, steps=4)


def test_step_flop_counts_all_matrix_products() -> None:
    size = SMALL
    encoder = 3 * 8 + 2 * 8 + 2 * 2  # [x] and [h] to four gates, h to a key
    decoder = 3 * 8 + 2 * 8 + 2 * 8 + 2 * 2 + 4 * 2 + 2 * 2 * 2 + 2 * 5  # [x; h̃; h], query, weighted sum, h̃, projection
    softmax = (7 + 1) * 5
    assert size.forward_products() == 4 * (encoder + decoder + softmax)
    assert size.step_flop() == 6 * size.forward_products()
    assert 0.9e12 < Size(1024, 2048, 1024, 50_000, 512).step_flop() < 1.1e12  # the thesis's


def test_the_limit_of_a_search_is_memory_for_one_row_and_products_for_many() -> None:
    size = SMALL
    encoder, decoder = 3 * 8 + 2 * 8 + 2 * 2, 3 * 8 + 2 * 8 + 2 * 8 + 2 * 2 + 2 * 2 + 2 * 5 + 5 * 50
    assert size.min_search_seconds(1, 1, 100.0, 1e9) == pytest.approx(4 * 4 * (encoder + decoder) / 100)
    products = 4 * 3 * encoder + 3 * decoder + 3 * 3 * 10 * decoder  # the first word has one hypothesis
    assert size.min_search_seconds(3, 10, 1e9, 100.0) == pytest.approx(2 * products / 100)
