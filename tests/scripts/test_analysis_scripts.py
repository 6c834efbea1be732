"""The analysis scripts as a person runs them: on a tiny run, without a display."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
SIGNATURES = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
PICTURES: dict[str, tuple[list[str], list[str]]] = {
    "plot_learning_curves.py": ([], ["learning_curves"]),
    "plot_attention.py": (["you see the tree1 ?", "--n-best", "2"], ["attention", "attention_overlay"]),
    "plot_embeddings.py": (["--word", "the"], ["word_embeddings"]),
    "plot_thought_vectors.py": (["--limit", "20"], ["thought_vectors"]),
    "plot_ngrams.py": (["--limit", "6"], ["ngrams_10", "ngrams_20", "ngram_ranks", "ngram_divergence"]),
    "plot_beam_study.py": (["--widest", "4"], ["beam_study"]),
    "inspect_model.py": ([], ["gates_encoder", "gates_decoder", "weights", "gradients_by_step"]),
    "compare_replies.py": ([], ["replies"]),
}


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MPLBACKEND")}
    command = [sys.executable, str(SCRIPTS / script), *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"PYTHONPATH": str(SCRIPTS.parent)},
        timeout=900,
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
@pytest.mark.parametrize("script", PICTURES)
def test_pictures_of_a_run(script: str, form: str, own_run: Path, tmp_path: Path) -> None:
    arguments, names = PICTURES[script]
    result = run(script, own_run, *arguments, "--output", tmp_path / "pictures", "--format", form)
    assert (result.returncode, result.stderr) == (0, "")
    for name in names:
        picture = tmp_path / "pictures" / f"{name}.{form}"
        assert picture.read_bytes().startswith(SIGNATURES[form])
        assert f"written: {picture}" in result.stdout
    assert len(list((tmp_path / "pictures").glob(f"*.{form}"))) == len(names)


def test_learning_curves_as_a_file_and_what_is_wrong_as_a_sentence(tiny_run: Path, tmp_path: Path) -> None:
    result = run("plot_learning_curves.py", tiny_run, tiny_run, "--output", tmp_path / "x.svg", "--by-time")
    assert (result.returncode, result.stderr) == (0, "")
    assert (tmp_path / "x.svg").read_bytes().startswith(b"<?xml")
    assert "best validation loss" in result.stdout
    for arguments, message in (
        (("nowhere", "--results", tmp_path), "no run"),
        ((tiny_run, "--output", "x.svg", "--format", "png"), "two formats"),
        ((tiny_run, "--output", tmp_path / "x.svg" / "x.png"), "cannot be written"),
    ):
        result = run("plot_learning_curves.py", *arguments)
        assert result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr


def test_every_analysis_script_is_here() -> None:
    """Each is a page long and of this list; what they share is no script of its own."""
    patterns = ("plot_*.py", "inspect_*.py", "compare_replies.py")
    scripts = {path.name for pattern in patterns for path in SCRIPTS.glob(pattern)}
    assert scripts == set(PICTURES)
