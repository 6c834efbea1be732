"""The studies, on tiny models."""

import json
import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from join_sentences import main as join_sentences
from study_memory import BLANK, FIRST, KINDS, NETWORKS, RECALL, VOCABULARY_SIZE, Task, train
from study_sentence_length import draw_bleu

from seq2seq_chat.runs.run import Run


def test_symbols_are_recalled_after_the_gap() -> None:
    """A batch is a function of seed and number."""
    task = Task(gap=7, symbols=10, hidden_size=8, seed=3)
    batch = task.batch(rows=50, number=1)
    assert batch.inputs.shape == batch.targets.shape == (50, 7 + 2 * 10)
    assert np.all((batch.inputs == RECALL).sum(axis=1) == 1)
    for inputs, targets in zip(batch.inputs, batch.targets, strict=True):
        assert inputs[:10].tolist() == targets[-10:].tolist()
        assert (inputs[10:16] == BLANK).all()
        assert inputs[16] == RECALL  # is read in the step before the first symbol is expected
        assert (inputs[17:] == BLANK).all()
        assert (targets[:-10] == BLANK).all()
    assert set(np.unique(batch.inputs[:, :10])) == set(range(FIRST, FIRST + KINDS))
    assert max(RECALL, BLANK) < VOCABULARY_SIZE
    np.testing.assert_array_equal(task.batch(50, 1).inputs, batch.inputs)
    assert (task.batch(50, 2).inputs != batch.inputs).any()
    assert (task._replace(seed=4).batch(50, 1).inputs != batch.inputs).any()


@pytest.mark.slow
def test_study_of_memory(tmp_path: Path) -> None:
    options = ["--gap", "1", "--gap", "3", "--symbols", "2", "--steps", "2", "--hidden-size", "8"]
    picture = tmp_path / "memory.png"
    result = CliRunner().invoke(import_module("study_memory").main, [*options, "--output", str(picture)])
    assert result.exit_code == 0, result.exception
    assert picture.read_bytes().startswith(b"\x89PNG")
    first_cells = [line.split("  ")[0] for line in result.stdout.splitlines()]
    assert first_cells == ["symbols recalled after", *(each.label for each in NETWORKS), f"written: {picture}"]
    bar: Any = SimpleNamespace(update=lambda: None)
    trained = train(NETWORKS[-1], Task(gap=3, symbols=2, hidden_size=8, seed=1), 2, bar)
    assert 0 <= trained.recalled <= 1
    assert trained.steps == 2
    for norms in (trained.before, trained.after):
        assert len(norms) == 3 + 3
        assert min(norms) >= 0 < norms[0]


@pytest.mark.slow
def test_study_of_truncation() -> None:
    """With a carried state most questions are answered; without one, answers stay a guess among eight symbols."""
    result = CliRunner().invoke(import_module("study_truncation").main, ["--steps", "1000"])
    assert result.exit_code == 0, result.exception
    chunks, carried = result.stdout.splitlines()[1:]
    independent, remembered = ([int(share) for share in re.findall(r"(\d+)%", row)] for row in (chunks, carried))
    assert max(independent) < 20
    assert min(remembered) > 50


@pytest.mark.slow
def test_bleu_of_the_study_of_sentence_lengths(run_copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    draw_bleu([Run(run_copy)], 2, str(tmp_path / "bleu.png"))
    assert (tmp_path / "bleu.png").read_bytes().startswith(b"\x89PNG")
    assert f"written: {tmp_path / 'bleu.png'}" in capsys.readouterr().out


def test_joined_sentences(tmp_path: Path) -> None:
    (tmp_path / "short.tsv").write_text("".join(f"{'a ' * n}b\t{'c ' * n}d\n" for n in range(4)), encoding="utf-8")
    arguments = [str(tmp_path / "short.tsv"), str(tmp_path / "long.tsv"), "--pairs", "50", "--words", "5", "9"]
    result = CliRunner().invoke(join_sentences, arguments)
    assert result.exit_code == 0, result.output
    pairs = [line.split("\t") for line in (tmp_path / "long.tsv").read_text(encoding="utf-8").splitlines()]
    lengths = [len(source.split()) for source, _ in pairs]
    assert len(pairs) == 50 and 9 in lengths and max(lengths) <= 9
    assert all(source.replace("a", "c").replace("b", "d") == target for source, target in pairs)
    result = CliRunner().invoke(join_sentences, [*arguments[:-2], "9", "5"])
    assert result.exit_code == 2 and "the first must not exceed the second" in result.output
    (tmp_path / "short.tsv").write_text("\u2060\tx\n", encoding="utf-8")  # a source without tokens
    result = CliRunner().invoke(join_sentences, arguments)
    assert "has 1 to 9 words; raise --words" in str(result.exception)


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
