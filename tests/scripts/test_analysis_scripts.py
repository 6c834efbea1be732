"""The analysis scripts on a tiny run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
SIGNATURES = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
SCRIPT_RUNS: dict[str, tuple[str, list[str], list[str]]] = {  # format, arguments, pictures
    "plot_learning_curves": ("png", [], ["learning_curves"]),
    "plot_attention": ("svg", ["you see the tree1 ?", "--n-best", "2"], ["attention", "attention_overlay"]),
    "plot_embeddings": ("pdf", ["--word", "the"], ["word_embeddings"]),
    "plot_thought_vectors": ("png", ["--limit", "20"], ["thought_vectors"]),
    "plot_ngrams": ("svg", ["--limit", "6"], ["ngrams_10", "ngrams_20", "ngram_ranks", "ngram_divergence"]),
    "plot_bleu_by_length": ("svg", ["--limit", "6", "--beam-width", "2"], ["bleu_by_length"]),
    "plot_beam_study": ("pdf", ["--widest", "4"], ["beam_study"]),
    "inspect_model": ("svg", [], ["gates_encoder", "gates_decoder", "weights", "gradients_by_step"]),
    "compare_replies": ("pdf", [], ["replies"]),
}


def run_script(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script as a process without a display."""
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MPLBACKEND")}
    return subprocess.run(
        [sys.executable, str(SCRIPTS / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"PYTHONPATH": str(SCRIPTS.parent)},
        timeout=900,
    )


def check_pictures(folder: Path, file_format: str, names: list[str], output: str) -> None:
    for name in names:
        picture = folder / f"{name}.{file_format}"
        assert picture.read_bytes().startswith(SIGNATURES[file_format])
        assert f"written: {picture}" in output
    assert len(list(folder.glob(f"*.{file_format}"))) == len(names)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPT_RUNS)
def test_pictures_of_a_run(name: str, run_copy: Path, tmp_path: Path) -> None:
    file_format, arguments, pictures = SCRIPT_RUNS[name]
    options = [*arguments, "--output", str(tmp_path / "pictures"), "--format", file_format]
    result = CliRunner().invoke(import_module(name).main, [str(run_copy), *options])
    assert (result.exit_code, result.stderr) == (0, ""), result.exception
    check_pictures(tmp_path / "pictures", file_format, pictures, result.stdout)


def test_a_damaged_checkpoint_is_reported(run_copy: Path, tmp_path: Path) -> None:
    newest = run_copy / "checkpoints" / "0000000020.npz"
    newest.write_bytes(newest.read_bytes()[:1000])
    result = CliRunner().invoke(
        import_module("plot_attention").main, [str(run_copy), "you see the tree1 ?", "--output", str(tmp_path)]
    )
    assert result.exit_code == 0, result.exception
    assert result.stderr.startswith("seq2seq-chat: warning: ")
    assert "0000000020.npz" in result.stderr


@pytest.mark.slow
def test_formats_without_a_display(tiny_run: Path, tmp_path: Path) -> None:
    for file_format in SIGNATURES:
        folder = tmp_path / file_format
        result = run_script("plot_learning_curves.py", tiny_run, "--output", folder, "--format", file_format)
        assert (result.returncode, result.stderr) == (0, "")
        check_pictures(folder, file_format, ["learning_curves"], result.stdout)


def test_output_as_a_file(tiny_run: Path, tmp_path: Path) -> None:
    result = run_script("plot_learning_curves.py", tiny_run, tiny_run, "--output", tmp_path / "x.svg", "--by-time")
    assert (result.returncode, result.stderr) == (0, "")
    assert (tmp_path / "x.svg").read_bytes().startswith(b"<?xml")
    assert "best validation loss" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "--results", "."), "no run"),
        (("RUN", "--output", "x.svg", "--format", "png"), "different formats"),
        (("RUN", "--output", "taken/x.png"), "could not write"),
    ],
)
def test_errors_are_messages(arguments: tuple[str, ...], message: str, tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("not a folder")
    replacements = {"RUN": str(tiny_run), ".": str(tmp_path), "taken/x.png": str(tmp_path / "taken" / "x.png")}
    result = run_script("plot_learning_curves.py", *(replacements.get(a, a) for a in arguments))
    assert result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr


def test_all_analysis_scripts_are_tested() -> None:
    patterns = ("plot_*.py", "inspect_*.py", "compare_replies.py")
    assert {path.stem for pattern in patterns for path in SCRIPTS.glob(pattern)} == set(SCRIPT_RUNS)


def test_a_study_of_too_few_sentences(tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.mkdir()
    pairs = {"train": 240, "validation": 30, "test": 19}
    (short / "statistics.json").write_text(json.dumps({split: {"pairs": number} for split, number in pairs.items()}))
    study = import_module("study_sentence_length").main
    result = CliRunner().invoke(study, ["pairs.tsv", "--folder", str(tmp_path)])
    assert "30 validation and 19 test pairs, but at least 20 of each are needed" in str(result.exception)
    assert list(tmp_path.iterdir()) == [short]
    (tmp_path / "inputs.json").write_text('{"others.tsv": 7}')
    result = CliRunner().invoke(study, ["pairs.tsv", "--folder", str(tmp_path)])
    assert "has the study of other inputs, see inputs.json" in str(result.exception)


@pytest.mark.slow
def test_study_of_memory(tmp_path: Path) -> None:
    options = ["--gap", "1", "--gap", "3", "--symbols", "2", "--steps", "2", "--hidden-size", "8", "--format", "svg"]
    options += ["--json", str(tmp_path / "memory.json"), "--output", str(tmp_path / "pictures")]
    result = CliRunner().invoke(import_module("study_memory").main, options)
    assert result.exit_code == 0, result.exception
    check_pictures(tmp_path / "pictures", "svg", ["memory", "recall"], result.stdout)
    results = json.loads((tmp_path / "memory.json").read_text())["results"]
    assert list(results) == ["RNN, random", "RNN, orthogonal", "RNN, identity", "GRU", "LSTM"]
    for by_gap in results.values():
        for gap, measured in by_gap.items():
            assert 0 <= measured["recalled"] <= 1
            assert measured["steps"] == 2
            for norms in (measured["before"], measured["after"]):
                assert len(norms) == int(gap) + 3
                assert min(norms) >= 0 < norms[0]


@pytest.mark.slow
def test_what_rounding_the_weights_costs(tiny_run: Path, tmp_path: Path) -> None:
    arguments = [str(tiny_run), "--limit", "8", "--json", str(tmp_path / "rows.json")]
    result = CliRunner().invoke(import_module("measure_rounding").main, arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.exception
    own, rounded = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))["rows"]
    assert own["same replies"] == "100.0 %"
    assert 0 < abs(float(rounded["perplexity"]) / float(own["perplexity"]) - 1) < 0.05  # rounded, but not by much
