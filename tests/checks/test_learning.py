"""The check of the settings: what must fail does, for its own reason, and the printed command passes."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.checks.check_context import CheckContext
from seq2seq_chat.checks.learning import CLIPPED, DECAYED, FROZEN, TOO_HIGH, TOO_LOW, check_learning, diagnose
from seq2seq_chat.checks.learning_trial import Trial, effective_steps
from seq2seq_chat.checks.suite import CHECKS
from seq2seq_chat.config import Training, load_config
from tests.conftest import REPOSITORY, shipped_configs

SGD = ["training.optimizer=sgd", "training.learning_rate=0.5"]
DECAY = ["training.learning_rate_schedule=exponential", "training.learning_rate_decay_steps=2"]
IN_CI = ("quickstart", "recipes/dates", "shakespeare_quick", "thesis_reddit")


def trial(losses: list[float], fixed: list[float], norm: float = 1.0, untrained: str = "", **settings: Any) -> Trial:
    """What a training of 1,000 steps did."""
    training = Training.model_validate({"steps": 1000, "learning_rate": 0.1, "optimizer": "sgd"} | settings)
    norms = [norm] * len([*losses, *fixed])
    return Trial(training, losses, fixed, norms, movement=1e-3, weights=100, untrained=untrained.split())


FALLING, CONSTANT = [7.9, 7.8, 7.7, 7.6], [8.0] * 4
SCHEDULE: Any = {"learning_rate_schedule": "exponential"}


@pytest.mark.parametrize(
    ("result", "cause"),
    [
        (trial([8, 7.95], FALLING), None),
        (trial([8, 8], [8, 7.9985, 7.997, 7.9955]), None),  # 1.5 nats in 1,000 steps
        (trial([8, 8], [8, 7.9995, 7.999, 7.9985]), TOO_LOW),  # half a nat
        (trial([0.8, 0.8], [0.8, 0.7995, 0.799, 0.7985]), None),  # which is more than half of the first loss
        (trial([8, 8], CONSTANT), TOO_LOW),
        (trial([8, 8], CONSTANT, gradient_clipping=0.05), CLIPPED),
        (trial([8, 8], CONSTANT, gradient_clipping=0.05, gradient_clipping_by="value"), TOO_LOW),  # 0.5 of the norm
        (trial([8, 8], FALLING, gradient_clipping=0.05), None),  # clipping that does not prevent anything
        (trial([9, 8.9], [8.7, 7.6, 8.7, 48, 8.85]), None),  # a step that overshoots
        (trial([8, 12], [12, 11, 10, 9]), TOO_HIGH),
        (trial([8, 8], [7, 7.5, 9, 11]), TOO_HIGH),
        (trial([8, float("nan")], [float("nan")]), TOO_HIGH),
        (trial([8, 7.95], FALLING, **SCHEDULE, learning_rate_decay_steps=50), None),  # 0.001 at half of the steps
        (trial([8, 7.95], FALLING, **SCHEDULE, learning_rate_decay_steps=20), DECAYED),  # 3e-8
        (trial([8, 7.95], FALLING, untrained="encoder/layer0/bias"), FROZEN),
    ],
)
def test_what_it_looks_like(result: Trial, cause: str | None) -> None:
    assert diagnose(result) == cause


@pytest.mark.parametrize("steps", [10, 300, 54_321])
def test_steps_at_the_initial_rate(steps: int) -> None:
    settings = Training(steps=steps, learning_rate_schedule="exponential", learning_rate_decay_steps=50)
    assert effective_steps(settings) == pytest.approx(sum(0.5 ** (step / 50) for step in range(steps)), rel=0.01)
    assert effective_steps(Training(steps=steps)) == pytest.approx(steps)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The quickstart at a smaller size."""
    settings = json.loads((REPOSITORY / "configs" / "quickstart.json").read_text(encoding="utf-8"))
    settings["data"] |= {"vocabulary_size": 500, "buckets": None}
    settings["model"] |= {"hidden_size": 32, "embedding_size": 24, "projection_size": 24}
    settings["training"] |= {"batch_size": 16, "steps": 500}
    path = tmp_path / "small.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "cause"),
    [
        ([SGD[0], "training.learning_rate=1e-12"], TOO_LOW),
        (["training.learning_rate=1e3"], TOO_HIGH),
        ([*SGD, "training.gradient_clipping=1e-9"], CLIPPED),
        ([*DECAY, "training.learning_rate_decay=0.1"], DECAYED),
        ([SGD[0], "training.learning_rate=1e-9", "training.gradient_clipping=1e-9"], CLIPPED),
        (["training.steps=3"], TOO_LOW),
    ],
)
def test_hopeless_settings_fail_and_the_printed_command_passes(
    cli: Callable[..., Any], small: Path, tmp_path: Path, overrides: list[str], cause: str, monkeypatch: Any
) -> None:
    monkeypatch.chdir(REPOSITORY)
    common = ("--results", tmp_path, "--only", "learning")
    result = cli("check", small, *(part for each in overrides for part in ("--set", each)), *common)
    assert result.status == 1 and f"it looks like {cause}" in result.out
    remedy = next(line for line in result.out.splitlines() if line.startswith("seq2seq-chat check"))
    assert cli(*shlex.split(remedy)[1:], "--results", tmp_path).status == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["training.gradient_clipping=1e-3"],  # which Adam does not notice
        ["model.dropout=0.9"],
        ["model.hidden_size=1", "model.embedding_size=1", "model.projection_size=1", "training.learning_rate=0.02"],
        ["model.encoder_steps=1"],  # there is nothing to attend to
        SGD,
    ],
)
def test_settings_that_learn_pass(small: Path, tmp_path: Path, overrides: list[str], monkeypatch: Any) -> None:
    monkeypatch.chdir(REPOSITORY)
    result = check_learning(CheckContext(load_config(small, overrides), tmp_path), lambda text: None)
    assert result.passed, result.detail


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=path.stem, marks=pytest.mark.slow(minutes=2) if path.stem in IN_CI else pytest.mark.nightly
        )
        for path in shipped_configs()
    ],
)
def test_shipped_configurations_pass(path: Path, tmp_path: Path) -> None:
    """In processes of their own, as TensorFlow keeps the memory of a model of the thesis's size."""
    command = [sys.executable, "-m", "seq2seq_chat", "check", path, "--only", "learning", "--results", tmp_path]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=900)
    assert re.search("^passed  learning", result.stdout, re.MULTILINE), result.stdout + result.stderr
    assert result.returncode in (0, 3), result.stderr  # 3: the corpus of the configuration is not there


def test_the_docs_name_what_each_check_replaces() -> None:
    rows = (REPOSITORY / "docs" / "checks.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("| `")]
    assert {name.strip("`"): replaced for name, _, replaced in cells} == {
        name: check.replaced for name, check in CHECKS.items()
    }
