"""The checks of language models: a sound model passes, and each fault that is built in is caught."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.checks.check_context import CheckContext
from seq2seq_chat.checks.suite import checks_of, run_checks
from seq2seq_chat.config import Config, parse_config
from seq2seq_chat.data.running_text import Streams, TextBatch
from seq2seq_chat.model.language_model import LanguageModel
from tests.checks.test_faults import failed_checks, patch_fresh_processes
from tests.conftest import run_command

TEXT = "the cat sat on the mat.\nthe dog sat on the log, and the frog saw both.\n" * 60


def configuration(folder: Path, seed: int = 1, **model: Any) -> Config:
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    sizes = {"hidden_size": 256, "embedding_size": 64, "projection_size": None, "dropout": 0.2}
    settings = {
        "name": "text",
        "seed": seed,
        "task": "language_model",
        "data": {"train": str(folder / "text.txt"), "tokenizer": "character"},
        "model": sizes | model,
        "training": {"batch_size": 8, "bptt_forward": 20},
    }
    return parse_config(settings, "test")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "model"),
    [
        (1, {}),
        pytest.param(2, {"cell": "gru", "layers": 2}, marks=pytest.mark.nightly),
        (3, {"cell": "rnn", "projection_size": 64}),
    ],
)
def test_a_sound_model_passes(tmp_path: Path, seed: int, model: dict[str, Any]) -> None:
    assert failed_checks(CheckContext(configuration(tmp_path, seed, **model), tmp_path)) == set()


def state_is_not_carried(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = Streams.batch
    patch.setattr(Streams, "batch", lambda self, step: real(self, step)._replace(is_first=np.bool_(True)))


def targets_are_the_inputs(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = Streams.batch

    def batch(self: Streams, step: int) -> TextBatch:
        correct = real(self, step)
        return correct._replace(targets=correct.inputs)

    patch.setattr(Streams, "batch", batch)


def state_is_lost_when_loading(patch: pytest.MonkeyPatch, folder: Path) -> None:
    fault = """
        for variable in arguments[1]:
            if variable.name.startswith("state/"):
                variable.assign(variable * 0)
    """
    patch_fresh_processes(patch, folder, "model.variables", "load_variables", fault)


def state_is_kept_from_the_prompt_only(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Generation forgets its state with every token."""
    real = LanguageModel.step
    patch.setattr(LanguageModel, "step", lambda self, tokens, states: (real(self, tokens, states)[0], states))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (state_is_not_carried, "carried-state"),
        (targets_are_the_inputs, "overfitting"),
        (state_is_lost_when_loading, "save-and-load"),
        (state_is_kept_from_the_prompt_only, "overfitting"),
    ],
)
def test_a_fault_is_caught(
    fault: Callable[[pytest.MonkeyPatch, Path], None], check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = CheckContext(configuration(tmp_path), tmp_path)
    monkeypatch.setattr("seq2seq_chat.checks.reply_tasks.RECITING_STEPS", 240)
    fault(monkeypatch, tmp_path)
    assert failed_checks(context, [check]) == {check}


def test_the_data_of_a_text_that_is_too_short(tmp_path: Path) -> None:
    config = configuration(tmp_path)
    (tmp_path / "text.txt").write_text("too short", encoding="utf-8")
    (check,) = run_checks(CheckContext(config, tmp_path), ["data"])
    assert not check.result.passed
    assert "makes 8 streams of 1, but training.bptt_forward is 20" in check.result.detail


def test_checks_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    path, config = tmp_path / "config.json", configuration(tmp_path)
    path.write_text(config.to_json(), encoding="utf-8")
    result = run_command("check", path, "--only", "alignment", "--results", tmp_path)
    expected = f"--only alignment: no such check for task language_model; choose from {', '.join(checks_of(config))}"
    assert result.error_message == expected
