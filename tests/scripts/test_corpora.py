"""The scripts about corpora, and the thesis's settings from a generated dump to ten steps of training."""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def run(script: str, *arguments: object, folder: Path) -> str:
    command = [sys.executable, str(REPOSITORY / "scripts" / script), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
def test_scripts_print_and_write_what_they_found(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a b c a\nb\n<<<<<END-CONV>>>>>\na b d\nx\n")
    assert "vocabulary_6.txt" in run("build_vocabulary.py", corpus, "--size", 6, "--output", "v", folder=tmp_path)
    vocabulary = tmp_path / "v" / "vocabulary_6.txt"
    assert vocabulary.read_text().split()[4:] == ["a", "b"]
    run("analyze_coverage.py", corpus, "--vocabulary", vocabulary, folder=tmp_path)
    (row,) = json.loads((tmp_path / "coverage.json").read_text())
    assert row["missing"] == {"0": 1, "1": 3}
    assert (row["known words"], row["unknown words"], row["known occurrences"], row["unknown occurrences"]) == (
        2,
        3,
        6,
        3,
    )
    run("analyze_ngrams.py", corpus, "--top", 2, folder=tmp_path)
    with open(tmp_path / "ngrams.csv", newline="") as file:
        found = [(row["ngram"], int(row["count"])) for row in csv.DictReader(file)]
    assert found == [("a", 3), ("b", 3), ("a b", 2), ("b c", 1), ("a b c", 1), ("a b d", 1)]
    assert "corpus.txt" in run("corpus_statistics.py", corpus, folder=tmp_path)
    assert (tmp_path / "corpora.png").stat().st_size > 5000
    assert (tmp_path / "ngrams_graph.png").stat().st_size > 5000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("between", "pairs", "close"),
    [("starts", {"0": 1, "2": 1, "5": 1, "9": 1}, 75.0), ("silence", {"0": 1, "1": 3, "5": 1}, 100.0)],
)
def test_time_lags(
    cli: Callable[..., object], tmp_path: Path, between: str, pairs: dict[str, int], close: float
) -> None:
    # Seconds at which seven utterances begin and end; when the last but one begins is not known.
    clocks = [(1.0, 1.1), (1.4, 2.2), (3.4, 7.0), (8.4, 12.6), (17.4, 18.0), (None, 20.0), (21.0, 22.0)]
    film = ""
    for number, clock in enumerate(clocks):
        times = [
            f'<time id="T{number}{kind}" value="00:00:{int(at):02},{round(at % 1 * 1000):03}"/>'
            if at is not None
            else ""
            for kind, at in zip("SE", clock, strict=True)
        ]
        film += f'<s id="{number}">{times[0]}<w id="1">said</w><w id="2">{number}</w>{times[1]}</s>'
    (tmp_path / "1.xml").write_text(f"<document>{film}</document>")
    answer = cli("prepare", "opensubtitles", tmp_path / "1.xml", "--output", tmp_path / "data", "--max-gap", "off")
    assert answer.status == 0, answer
    printed = run("analyze_time_lags.py", tmp_path / "data", "--between", between, "--most", 10, folder=tmp_path)
    (found,) = json.loads((tmp_path / "time_lags.json").read_text())
    assert {row["seconds"]: row["pairs"] for row in found["histogram"] if row["pairs"]} == pairs
    assert [row["seconds"] for row in found["histogram"]] == ["<0", *map(str, range(10)), "10+"]
    assert found["within_5_seconds_percent"] == close
    assert f"{close:.1f} % within 5 seconds" in printed
    with open(tmp_path / "time_lags.csv", newline="") as file:
        assert sum(int(row["pairs"]) for row in csv.DictReader(file)) == sum(pairs.values())
    assert (tmp_path / "time_lags.png").stat().st_size > 5000


@pytest.fixture(scope="module")
def generator(script: Callable[[str], Any]) -> Any:
    """The benchmark, which generates dumps."""
    return script("benchmark_prepare")


@pytest.mark.slow
@pytest.mark.parametrize("corpus", ["opensubtitles", "reddit"])
def test_the_thesis_settings_train(
    cli: Callable[..., Any], generator: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpus: str
) -> None:
    if corpus == "reddit":
        generator.generate_reddit(tmp_path / "RC_2015-01", 90)
        how = [tmp_path / "RC_2015-01", "--split", "97,2,1"]
    else:
        generator.generate_opensubtitles(tmp_path / "tree", 150)
        how = [tmp_path / "tree", "--split", "97,1,2", "--max-gap", "off"]
    data = tmp_path / "data" / corpus
    answer = cli("prepare", corpus, *how, "--output", data)
    assert answer.status == 0, answer
    run("build_vocabulary.py", data, "--split", "train", "--size", 100_000, "--output", data, folder=tmp_path)
    assert len((data / "vocabulary.txt").read_text().split()) == 50_000
    assert len((data / "vocabulary_100000.txt").read_text().split()) == 100_000
    monkeypatch.chdir(tmp_path)  # where the settings find the corpus
    small = {
        "model.hidden_size": 8,
        "model.embedding_size": 4,
        "model.projection_size": 4,
        "training.batch_size": 8,
        "training.steps": 10,
        "training.log_every": 1,
        "training.validation_limit": 8,
    }
    options = [part for key, value in small.items() for part in ("--set", f"{key}={value}")]
    settings = sorted((REPOSITORY / "configs").glob(f"thesis_{corpus}*.json"))
    assert len(settings) == 2
    for config in settings:
        answer = cli("train", config, "--results", "results", *options)
        assert answer.status == 0, answer
        folder = Path(answer.out.splitlines()[-1])
        metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert sum(line["kind"] == "train" for line in metrics) == 10
        words = len((folder / "vocabulary.txt").read_text().split())
        assert words == json.loads(config.read_text())["data"]["vocabulary_size"]
        exact = [line["loss"] for line in metrics if line["kind"] == "validation"]
        assert exact and all(abs(loss - math.log(words)) < 0.5 for loss in exact)  # it has hardly learned
