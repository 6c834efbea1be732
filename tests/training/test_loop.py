"""The training loop: what happens at which step, and what the chief does after a validation."""

import json
import math
from types import SimpleNamespace
from typing import Any, Literal
from unittest.mock import MagicMock, call

import pytest
import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.metrics.scores import CorpusLoss
from seq2seq_chat.model.seq2seq import Loss
from seq2seq_chat.training.distribution import Distribution
from seq2seq_chat.training.loop import Chief, Trainer, TrainingState
from seq2seq_chat.training.optimizers import Schedule
from seq2seq_chat.training.reporter import Meter
from seq2seq_chat.training.step import StepResult

STEP = StepResult(Loss(tf.constant(1.0), tf.constant(1.0)), tf.constant(1.0), tf.constant(0.0))


class FakeLearner:
    """Does nothing, and records the learning rate of each step."""

    def __init__(self, stop: float = 0.0) -> None:
        self.step, self.traces, self.data_seconds, self.stop = 0, 1, 0.0, stop
        self.rates: list[float] = []

    def set_learning_rate(self, rate: float) -> None:
        self.rates.append(rate)

    def close(self) -> None:
        pass

    def train_step(self, stop: bool) -> StepResult:
        self.step += 1
        return STEP._replace(stop=tf.constant(self.stop))


class Recorder:
    """Records its calls with the step."""

    def __init__(self, learner: FakeLearner) -> None:
        self.learner = learner
        self.events: list[tuple[Any, ...]] = []
        self.metrics: list[dict[str, Any]] = []

    def log_metrics(self, metrics: dict[str, Any]) -> None:
        self.events.append(("log", self.learner.step))
        self.metrics.append(metrics)

    def validate(self) -> None:
        self.events.append(("validate", self.learner.step))

    def save(self, last: bool) -> None:
        self.events.append(("save", self.learner.step, last))

    def finish(self) -> None:
        self.events.append(("finish", self.learner.step))

    def close(self) -> None:
        self.events.append(("close", self.learner.step))


def test_what_happens_at_which_step() -> None:
    rate: Any = {"learning_rate": 1.0, "learning_rate_schedule": "exponential", "learning_rate_decay_steps": 1}
    settings = Training(steps=7, log_every=3, validate_every=4, **rate)
    learner: Any = FakeLearner()
    chief: Any = Recorder(learner)
    state = TrainingState(learner, Schedule(settings), Meter(sampled=False))
    assert Trainer(state, chief, MagicMock()).train() is None
    assert chief.events == [
        *(("save", 1, False), ("save", 2, False), ("log", 3), ("save", 3, False)),
        *(("validate", 4), ("save", 4, False), ("save", 5, False), ("log", 6), ("save", 6, False)),
        *(("log", 7), ("validate", 7), ("save", 7, True), ("finish", 7), ("close", 7)),
    ]
    assert learner.rates == pytest.approx([0.5**step for step in range(7)])
    assert [metrics["tokens"] for metrics in chief.metrics] == [3, 3, 1]
    assert [metrics["learning_rate"] for metrics in chief.metrics] == pytest.approx([0.5**2, 0.5**5, 0.5**6])


def test_a_plan_counts_the_time_of_steps_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a second; the second one is not counted, and neither are validations and the plan itself."""
    settings, now = Training(steps=6, validate_every=2), [0.0]

    class TimedLearner(FakeLearner):
        def train_step(self, stop: bool) -> StepResult:
            now[0] += 1
            self.traces += self.step == 1
            return super().train_step(stop)

    def wait(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("seq2seq_chat.training.loop.time", SimpleNamespace(monotonic=lambda: now[0]))
    learner: Any = TimedLearner()
    plan = MagicMock(is_first=True, is_due=lambda step: step == 3, fit=lambda *_: settings)
    state = TrainingState(learner, Schedule(settings), Meter(sampled=False))
    chief = MagicMock(warm_up=lambda: wait(100), validate=lambda: wait(50))
    assert Trainer(state, chief, MagicMock(), plan=plan).train() is None
    assert plan.add_step.call_args_list == [call(1.0)] * 5
    assert plan.validation_seconds == 50


class StoppedEarly(Distribution):
    """One of two workers, to which the chief sends that its validation stops training."""

    workers = 2

    def broadcast(self, value: Any) -> Any:
        return {"since_best": 1, "since_fall": 1, "falls": 0}


def test_a_signal_at_the_step_that_stops_early_does_not_interrupt() -> None:
    """The chief exits with status 0 then, and so must the other workers."""
    settings, learner = Training(steps=50, validate_every=1, early_stopping=1), FakeLearner(stop=1.0)
    state = TrainingState(learner, Schedule(settings), Meter(sampled=False))  # type: ignore[arg-type]
    assert Trainer(state, None, MagicMock(), StoppedEarly()).train() is None
    assert learner.step == 1


@pytest.mark.parametrize("metric", ["loss", "bleu"])
def test_the_best_metric_decides(metric: Literal["loss", "bleu"]) -> None:
    """The best weights, the learning rate and early stopping follow it, also after resuming in between."""
    rate: Any = {"learning_rate": 1.0, "learning_rate_schedule": "plateau", "learning_rate_patience": 2}
    settings = Training(best_metric=metric, early_stopping=3, **rate)
    validator, saver, reporter = MagicMock(), MagicMock(), MagicMock()
    state = TrainingState(MagicMock(step=10), Schedule(settings), Meter(sampled=False))
    saved, rates, stopped = [], [], []
    for loss, bleu in zip((3.0, 2.0, 2.5, 2.2, 2.3), (5.0, 4.0, 6.0, 6.0, 5.9), strict=True):
        resumed = TrainingState(MagicMock(step=10), Schedule(settings), Meter(sampled=False))
        state.meter.add(STEP, seconds=1.0, data_seconds=0.25)
        assert resumed.restore({"step": 10, **json.loads(json.dumps(state.metadata()))})
        assert resumed.metadata() == state.metadata()
        state, before = resumed, saver.save_best.call_count
        validator.loss.return_value = CorpusLoss(nats=10 * loss, tokens=10, samples=3)
        validator.bleu.return_value = bleu
        Chief(state, validator, reporter, saver, MagicMock()).validate()
        assert reporter.log_validation.call_args.args[4] == bleu
        saved.append(saver.save_best.call_count > before)
        assert reporter.log_validation.call_args.args[3] == saved[-1]
        rates.append(state.schedule.learning_rate(10))
        stopped.append(state.schedule.stopped_early)
    assert (state.best_loss, state.best_bleu) == (2.0, 6.0)
    expected = {
        "loss": ([True, True, False, False, False], [1.0, 1.0, 1.0, 0.5, 0.5], [False] * 4 + [True]),
        "bleu": ([True, False, True, False, False], [1.0, 1.0, 1.0, 1.0, 0.5], [False] * 5),
    }
    assert (saved, rates, stopped) == expected[metric]
    messages = [call.args[0] for call in reporter.log.call_args_list]
    assert f"the validation {'BLEU' if metric == 'bleu' else metric} did not improve" in messages[0]


def test_state_of_an_earlier_version_has_no_bleu() -> None:
    state = TrainingState(MagicMock(), Schedule(Training()), Meter(sampled=False))
    state.restore({"best_loss": 1.5, "meter": {}, "step": 3})
    assert (state.best_loss, state.best_bleu) == (1.5, -math.inf)


def test_when_files_are_saved() -> None:
    settings = Training(steps=8, snapshot_every=4, checkpoint_every=3)
    learner, saver = MagicMock(), MagicMock()
    learner.model.trainable_variables = []
    chief = Chief(TrainingState(learner, Schedule(settings), Meter(False)), None, MagicMock(), saver, MagicMock())
    saved: dict[str, list[int]] = {"save_snapshot": [], "save_checkpoint": []}
    for name, steps in saved.items():
        getattr(saver, name).side_effect = lambda *_, steps=steps: steps.append(learner.step)
    for learner.step in range(1, 9):
        chief.save(last=learner.step == 8)
    assert saved == {"save_snapshot": [4, 8], "save_checkpoint": [3, 6, 8]}
