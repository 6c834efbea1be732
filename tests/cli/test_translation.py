"""A translation from the command line: every verb on one run."""

import gzip
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from tests.conftest import Cli, edit_config

WORDS = {"one": "un", "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six"}
VALIDATION, TRANSLATED = 40, 15  # validation samples, and how many of them are translated for BLEU
STEPS = 60
SETTINGS = f"""{{
    "name": "numbers", "task": "translation", "data": {{"tokenizer": "unicode"}},
    "model": {{
        "hidden_size": 24, "embedding_size": 12, "projection_size": null, "encoder_steps": 8, "decoder_steps": 8
    }},
    "training": {{
        "batch_size": 16, "steps": {STEPS}, "optimizer": "adam", "learning_rate": 0.02, "best_metric": "bleu",
        "bleu_limit": {TRANSLATED}, "validate_every": 20, "sample_replies": 2, "checkpoint_every": 20,
        "snapshot_every": {STEPS}
    }}
}}"""


def translations(count: int, seed: int, lengths: tuple[int, int] = (4, 6)) -> list[tuple[str, str]]:
    """Numbers in English and in French."""
    rng = random.Random(seed)
    numbers = [rng.choices(list(WORDS), k=rng.randint(*lengths)) for _ in range(count)]
    return [(" ".join(words) + "!", " ".join(WORDS[word] for word in words) + "!") for words in numbers]


def write(path: Path, pairs: list[tuple[str, str]]) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def validations(run: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["kind"] == "validation"]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translation")
    settings = json.loads(SETTINGS)
    settings["data"]["train"] = write(folder / "train.tsv", translations(400, 1))
    settings["data"]["validation"] = write(folder / "validation.tsv", translations(VALIDATION, 2))
    (folder / "numbers.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder / "numbers.json"


@pytest.fixture(scope="module")
def run(config: Path, cli: Cli) -> Path:
    result = cli("train", config, "--results", config.parent / "results")
    assert result.status == 0, result
    run = Path(result.out.splitlines()[-1])
    assert f" on 40 samples, BLEU {validations(run)[-1]['bleu']:.2f}, in 0:" in result.out
    return run


def translate(cli: Cli, run: Path, sources: list[str]) -> list[str]:
    result = cli("chat", run, stdin="".join(f"{source}\n" for source in sources).encode())
    assert result.status == 0, result
    return result.out.splitlines()


def test_validation_bleu_is_that_of_sacrebleu(cli: Cli, run: Path) -> None:
    """The last validation translated with the last weights, those that chat uses."""
    pairs = translations(VALIDATION, 2)
    sources, references = zip(*(pairs[n * VALIDATION // TRANSLATED] for n in range(TRANSLATED)), strict=True)
    expected = sacrebleu.corpus_bleu(translate(cli, run, list(sources)), [list(references)]).score
    lines = validations(run)
    assert [line["step"] for line in lines] == [20, 40, 60]
    assert lines[-1]["bleu"] == pytest.approx(expected, abs=1e-9)
    assert 5 < expected < 100


def test_tensorboard_has_the_bleu(run: Path) -> None:
    import tensorflow as tf
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard")).Reload().Tensors("validation/bleu")
    written = [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in events]
    assert written == [(line["step"], pytest.approx(line["bleu"])) for line in validations(run)]


def test_samples_default_questions_and_empty_lines(cli: Cli, run: Path) -> None:
    one, empty, same = translate(cli, run, ["one two three !", "", "one two three !"])
    assert one == same != empty == ""
    lines = list(map(json.loads, (run / "samples.jsonl").read_text(encoding="utf-8").splitlines()))
    pairs = translations(VALIDATION, 2)
    assert [list(line) for line in lines] == [["step", "source", "reply", "target"]] * 6
    assert [(line["source"], line["target"]) for line in lines[:2]] == [pairs[0], pairs[VALIDATION // 2]]
    from seq2seq_chat.data.corpus_file import bundled_questions
    from seq2seq_chat.report.predictions import default_questions
    from seq2seq_chat.runs.find import find_run

    sources = list(dict.fromkeys(source for source, _ in translations(VALIDATION, 2)[: len(bundled_questions())]))
    assert default_questions(find_run(str(run))) == sources


def test_evaluation_and_the_check_of_the_data(cli: Cli, run: Path, config: Path, tmp_path: Path) -> None:
    result = cli("evaluate", run, "--json", tmp_path / "out.json", "--output", tmp_path, "--all")
    assert result.status == 0, result
    assert "mean length of a translation, tokens" in result.out
    assert re.search(rf"copies +\d+ of {VALIDATION} translations ", result.out)
    assert json.loads((tmp_path / "out.json").read_text())["samples"] == VALIDATION
    (tmp_path / "side.fr").write_text("un deux!\n", encoding="utf-8")
    result = cli("check", config, "--only", "data", "--results", tmp_path)
    assert result.status == 0 and "coverage 100.0 %" in result.out, result
    error = cli("evaluate", run, "--data", tmp_path / "side.fr").error_message
    assert "trained on pairs of texts; specify a .tsv of two columns with --data" in error


def sacrebleu_command(folder: Path, *arguments: str) -> list[Any]:
    command = [sys.executable, "-m", "sacrebleu", *arguments, "-w", "9"]
    printed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=240).stdout
    results = json.loads(printed)
    return results if isinstance(results, list) else [results]


@pytest.mark.slow
def test_scores_are_those_of_sacrebleu_on_the_output_of_chat(cli: Cli, run: Path, tmp_path: Path) -> None:
    """Against the targets as they are in the corpus and a second reference, with a beam."""
    sources, targets = zip(*translations(VALIDATION, 2), strict=True)
    other = [" ".join(reversed(target.upper().split())) for target in targets]
    (tmp_path / "other.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in other).encode()))
    translated = cli("chat", run, "--beam-width", 3, stdin="".join(f"{source}\n" for source in sources).encode())
    for name, lines in {"hypotheses": translated.out.splitlines(), "targets": targets, "other": other}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    options = ["--beam-width", 3, "--reference", tmp_path / "other.gz", "--json", tmp_path / "out.json"]
    result = cli("evaluate", run, *options, "--output", tmp_path)
    assert result.status == 0, result
    metrics = json.loads((tmp_path / "out.json").read_text())
    for key, arguments in {"bleu": ["-m", "bleu"], "bleu_lowercase": ["-lc"], "chrf": ["-m", "chrf"]}.items():
        (expected,) = sacrebleu_command(tmp_path, "targets", "other", "-i", "hypotheses", *arguments)
        assert metrics[key] == pytest.approx(expected["score"], abs=1e-8)
        assert metrics[f"{key}_signature"] == expected["signature"]
        assert f"{metrics[f'{key}_label']}  " in result.out and expected["signature"] in result.out
        low, high = metrics[f"{key}_interval"]
        assert low < metrics[key] < high
    assert metrics["bleu_lowercase"] > metrics["bleu"]
    assert sum(row["samples"] for row in metrics["bleu_by_source_length"]) == VALIDATION
    assert metrics["bleu_by_source_length_label"] == "BLEU, detokenized"
    assert metrics["baseline"] is None


def test_a_reference_file_of_the_wrong_length(cli: Cli, run: Path, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("un deux!\n", encoding="utf-8")
    options = ["--output", tmp_path / "predictions", "--limit", 13, "--reference", tmp_path / "short"]
    error = cli("evaluate", run, *options).error_message
    assert f"{tmp_path / 'short'} has 1 line, but " in error
    assert f"validation.tsv has {VALIDATION} samples; write one reference per line" in error
    assert not (tmp_path / "predictions").exists()
    assert "does not exist" in cli("evaluate", run, "--reference", tmp_path / "missing").error_message


@pytest.mark.slow
def test_baseline(cli: Cli, run: Path, tmp_path: Path) -> None:
    """A snapshot of an earlier step, against sacrebleu's own test."""
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    results = run.parent
    younger = shutil.copytree(run, tmp_path / "results" / "2020-01-01_00-00-00_younger")
    for step in (40, STEPS):
        (younger / "checkpoints" / f"{step:010d}.npz").unlink()
    shutil.rmtree(younger / "snapshots")
    options = ["--baseline", younger, "--output", tmp_path / "predictions", "--json", tmp_path / "out.json"]
    result = cli("evaluate", run, *options, "--results", results)
    assert result.status == 0, result
    baseline = json.loads((tmp_path / "out.json").read_text())["baseline"]
    assert (baseline["run"], baseline["step"]) == (younger.name, 20)
    assert list(baseline["scores"]) == ["bleu", "bleu_lowercase", "bleu_tokenized", "chrf"]
    sources, targets = zip(*translations(VALIDATION, 2), strict=True)
    systems = [(name, translate(cli, one, list(sources))) for name, one in (("baseline", younger), ("system", run))]
    _, expected = PairedTest(systems, {"BLEU": BLEU()}, [list(targets)], test_type="bs")()
    test = baseline["scores"]["bleu"]
    assert [test["baseline"], test["score"]] == pytest.approx([one.score for one in expected["BLEU"]])
    assert test["p_value"] == pytest.approx(expected["BLEU"][1].p_value)
    assert test["interval"][0] < test["difference"] == test["score"] - test["baseline"] < test["interval"][1]
    assert f"compared with {younger.name}" in result.out and f"{test['difference']:+.2f}" in result.out


def test_runs_on_other_samples_are_not_compared(cli: Cli, run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "results" / "other")
    edit_config(other, "data", validation=write(tmp_path / "validation.tsv", translations(VALIDATION, 5)))
    error = cli("evaluate", run, "--baseline", other, "--output", tmp_path / "predictions").error_message
    assert "have different samples; specify one corpus for both with --data FILE" in error
    edit_config(other, "data", swap_source_target=True)
    options = ["--data", tmp_path / "validation.tsv", "--output", tmp_path / "predictions"]
    error = cli("evaluate", run, "--baseline", other, *options).error_message
    assert "read different samples from" in error
    assert not (tmp_path / "predictions").exists()


@pytest.mark.slow(minutes=2)
def test_report(cli: Cli, run: Path, tmp_path: Path) -> None:
    result = cli("report", run, "--output", tmp_path / "report.html")
    assert result.status == 0, result
    page = Path(result.out.splitlines()[-1]).read_text(encoding="utf-8")
    assert "Translations over time" in page
    assert "BLEU by the length of the source" in page
    assert "log-probability of the translation, nats" in page
    assert all(source in page for source, _ in translations(VALIDATION, 2)[:12])


def test_list_of_experiments(cli: Cli, run: Path) -> None:
    best = max(validations(run), key=lambda line: line["bleu"])
    head, row = cli("experiments", "list", "--results", run.parent).out.splitlines()
    assert "perplexity   BLEU  at step" in head
    assert f"{best['perplexity']:.2f}  {best['bleu']:.2f}" in row
    (summary,) = map(json.loads, cli("experiments", "list", "--json", "--results", run.parent).out.splitlines())
    assert (summary["task"], summary["best_bleu"], summary["best_step"]) == ("translation", best["bleu"], best["step"])
