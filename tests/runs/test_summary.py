"""The status of a run, read from its folder."""

import json
import math
import time
from typing import Any

import pytest

from seq2seq_chat.runs.run import Run
from seq2seq_chat.runs.summary import Notes, read_end, summarize, unanswered_steps
from tests.runs.conftest import STEPS


def line(step: int, loss: float | None = 1.0, kind: str = "train") -> str:
    return (
        json.dumps({"step": step, "kind": kind, "loss": loss, "perplexity": None, "tokens": 9, "seconds": 0.1}) + "\n"
    )


def write_end(run: Run, **end: Any) -> None:
    (run.path / "end.json").write_text(json.dumps(end), encoding="utf-8")


def test_a_run_before_its_first_step(run: Run) -> None:
    before = time.time()
    summary = summarize(run)
    assert (summary.name, summary.state, summary.step, summary.steps) == (run.name, "interrupted", 0, STEPS)
    assert (summary.best_perplexity, summary.best_step, summary.reason) == (None, None, None)
    assert before - 60 < summary.changed <= time.time() + 1


def test_a_run_that_is_being_trained(run: Run) -> None:
    run.metrics_file.write_text(line(10) + line(20), encoding="utf-8")
    write_end(run, state="failed", step=5, reason="of the previous training")
    with run.lock():
        summary = summarize(run)
    assert (summary.state, summary.step, summary.reason) == ("training", 20, None)


def test_without_a_recorded_end_the_step_decides(run: Run) -> None:
    for step, state in ((STEPS - 1, "interrupted"), (STEPS, "finished"), (STEPS + 1, "finished")):
        run.metrics_file.write_text(line(step), encoding="utf-8")
        assert summarize(run).state == state


@pytest.mark.parametrize("state", ["finished", "interrupted", "failed"])
def test_the_recorded_end_decides(run: Run, state: str) -> None:
    run.metrics_file.write_text(line(50), encoding="utf-8")
    write_end(run, state=state, step=57, reason="why", time="2026-05-04 17:03:22")
    summary = summarize(run)
    assert (summary.state, summary.step, summary.reason) == (state, 57, "why")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b"[]", b'{"state": "asleep", "step": 3}', b"\xff\xfe", b"[" * 100_000, b'{"state": 3}'],
)
def test_an_invalid_end_is_ignored(run: Run, content: bytes) -> None:
    (run.path / "end.json").write_bytes(content)
    assert read_end(run) is None
    assert summarize(run).state == "interrupted"


def test_an_end_with_an_invalid_step(run: Run) -> None:
    write_end(run, state="finished", step="many", reason=7)
    summary = summarize(run)
    assert (summary.state, summary.step, summary.steps, summary.task) == ("finished", 0, STEPS, "conversation")
    assert (summary.reason, summary.initialized_from, summary.notes) == (None, None, Notes())


def test_a_damaged_configuration_is_the_reason_of_a_failure(run: Run) -> None:
    (run.path / "config.json").write_text("{", encoding="utf-8")
    summary = summarize(run)
    assert (summary.state, summary.steps) == ("failed", None)
    assert summary.reason is not None
    assert "JSON" in summary.reason


def test_the_best_validation_has_the_lowest_loss(run: Run) -> None:
    losses = [(10, 4.0), (20, None), (30, 2.5), (40, 3.0)]
    text = "".join(line(step, loss, "validation") + line(step, 0.1) for step, loss in losses)
    run.metrics_file.write_text(text, encoding="utf-8")
    summary = summarize(run)
    assert summary.best_step == 30
    assert summary.best_perplexity == pytest.approx(math.exp(2.5))


def test_the_first_of_equal_validations_is_the_best(run: Run) -> None:
    """Its weights are those that training keeps as the best."""
    text = "".join(line(step, loss, "validation") for step, loss in [(10, 4.0), (20, 2.5), (30, 2.5)])
    run.metrics_file.write_text(text, encoding="utf-8")
    assert summarize(run).best_step == 20


def test_what_training_deletes_first_is_asked_first(run: Run) -> None:
    """Checkpoints before snapshots, which stay: of checkpoints the oldest first, of snapshots the newest."""
    for path in (*map(run.checkpoint_path, (40, 50, 60)), *map(run.snapshot_path, (20, 45, 60))):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert unanswered_steps(run, ["a", "b"], {}) == [40, 50, 60, 45, 20]
    answers = {40: {"a": "x", "b": "y"}, 50: {"a": "x"}, 45: {"b": "y", "a": "x", "c": "z"}}
    assert unanswered_steps(run, ["a", "b"], answers) == [50, 60, 20]
    run.metrics_file.write_text(line(10, 10_000.0, "validation"), encoding="utf-8")
    assert summarize(run).best_perplexity is None  # it overflows


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (b'{"step": 0, "initialized_from": {"run": "old", "step": 2000}}\n{"step": 9}\n', "old at step 2,000"),
        (b'{"step": 0}\n{"step": 9, "initialized_from": {"run": "old", "step": 2000}}\n', None),
        (b'{"step": 0, "initialized_from": {"run": 3, "step": 2000}}\n', None),
        (b'{"step": 0, "initialized_from": "old"}\n', None),
        (b"\xff{", None),
    ],
)
def test_whose_weights_it_started_from(run: Run, history: bytes, expected: str | None) -> None:
    assert summarize(run).initialized_from is None
    run.history_file.write_bytes(history)
    assert summarize(run).initialized_from == expected
