"""Options of `export` that are refused, whatever the format; nothing is written then."""

from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.random_runs import random_language_run


@pytest.mark.parametrize(
    ("output", "options", "message"),
    [
        ("occupied", "", "already exists; choose another folder"),
        ("occupied", "--format onnx", "already exists; choose another folder"),
        ("occupied", "--format html", "already exists; choose another folder"),
        ("occupied/mine", "", "already exists"),
        ("occupied/mine/deeper", "", "could not be written"),
        ("new", "--snapshot 11", "no snapshot"),
        ("new", "--n-best 9 --beam-width 3", "n_best is 9"),
        ("new", "--format onnx --n-best 2", "are for --format saved_model"),
        ("new", "--format html --n-best 3", "are for --format saved_model"),
        ("new", "--quantize int8", "--quantize is for --format onnx"),
    ],
)
def test_invalid_options(cli: Cli, tiny_run: Path, tmp_path: Path, output: str, options: str, message: str) -> None:
    (tmp_path / "occupied").mkdir()
    (tmp_path / "occupied" / "mine").write_text("kept", encoding="utf-8")
    assert message in cli("export", tiny_run, "--output", tmp_path / output, *options.split()).error_message
    assert [path.name for path in tmp_path.rglob("*")] == ["occupied", "mine"]
    assert (tmp_path / "occupied" / "mine").read_text(encoding="utf-8") == "kept"


@pytest.mark.parametrize("option", ["--beam-width", "--n-best"])
def test_beam_search_does_not_apply_to_language_models(cli: Cli, tmp_path: Path, option: str) -> None:
    run = random_language_run(tmp_path / "run", "the cat")
    result = cli("export", run.path, "--output", tmp_path / "exported", option, 3)
    assert "is a language model, which has no beam search: omit --beam-width and --n-best" in result.error_message
    assert not (tmp_path / "exported").exists()
