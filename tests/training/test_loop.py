"""The training loop: what happens at which step."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.model.seq2seq import Loss
from seq2seq_chat.training.loop import Role, Trainer, TrainingState
from seq2seq_chat.training.optimizers import Schedule
from seq2seq_chat.training.reporter import Meter
from seq2seq_chat.training.step import StepResult


class FakeLearner:
    """Does nothing, and records the learning rate of each step."""

    def __init__(self) -> None:
        self.step, self.traces, self.data_seconds = 0, 1, 0.0
        self.rates: list[float] = []

    def set_learning_rate(self, rate: float) -> None:
        self.rates.append(rate)

    def close(self) -> None:
        pass

    def train_step(self, stop: bool) -> StepResult:
        self.step += 1
        return StepResult(Loss(tf.constant(1.0), tf.constant(1.0)), tf.constant(1.0), tf.constant(0.0))


class Recorder(Role):
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
    settings = Training(
        steps=7,
        log_every=3,
        validate_every=4,
        learning_rate=1.0,
        learning_rate_schedule="exponential",
        learning_rate_decay_steps=1,
    )
    learner: Any = FakeLearner()
    role = Recorder(learner)
    state = TrainingState(learner, Schedule(settings), Meter(sampled=False))
    assert Trainer(state, settings, role, MagicMock()).train() is None
    assert role.events == [
        *(("save", 1, False), ("save", 2, False), ("log", 3), ("save", 3, False)),
        *(("validate", 4), ("save", 4, False), ("save", 5, False), ("log", 6), ("save", 6, False)),
        *(("log", 7), ("validate", 7), ("save", 7, True), ("finish", 7), ("close", 7)),
    ]
    assert learner.rates == pytest.approx([0.5**step for step in range(7)])
    assert [metrics["tokens"] for metrics in role.metrics] == [3, 3, 1]
    assert [metrics["learning_rate"] for metrics in role.metrics] == pytest.approx([0.5**2, 0.5**5, 0.5**6])
