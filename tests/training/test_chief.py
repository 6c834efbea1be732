"""What the chief does after a validation."""

from __future__ import annotations

import json
import math
from typing import Any, Literal
from unittest.mock import MagicMock

import pytest

from seq2seq_chat.config import Training
from seq2seq_chat.metrics.scores import CorpusLoss
from seq2seq_chat.training.loop import TrainingState
from seq2seq_chat.training.optimizers import Schedule
from seq2seq_chat.training.reporter import Meter
from seq2seq_chat.training.workers import Chief


def test_the_best_validation_is_the_lowest_so_far() -> None:
    """Not one that is only lower than the validation before it."""
    settings = Training(early_stopping=3)
    validator, saver, reporter = MagicMock(), MagicMock(), MagicMock()
    state = TrainingState(MagicMock(step=10), Schedule(settings), Meter(sampled=False))
    chief: Any = Chief(state, settings, validator, reporter, saver)
    saved, stopped = [], []
    for loss in (3.0, 2.0, 2.5, 2.2, 1.9, 1.9, 2.4, 2.1):
        validator.loss.return_value = CorpusLoss(nats=10 * loss, tokens=10, samples=3)
        validator.bleu.return_value = None
        chief.validate()
        saved.append(saver.save_best.call_count)
        stopped.append(state.schedule.stopped_early)
    assert saved == [1, 2, 2, 2, 3, 3, 3, 3]
    assert stopped == [False] * 7 + [True]
    assert state.best_loss == 1.9
    assert [call.args[3] for call in reporter.log_validation.call_args_list] == [
        True,
        True,
        *[False] * 2,
        True,
        *[False] * 3,
    ]


@pytest.mark.parametrize("metric", ["loss", "bleu"])
def test_the_best_metric_decides(metric: Literal["loss", "bleu"]) -> None:
    """The best weights, the learning rate and early stopping follow it, also after resuming in between."""
    settings = Training(
        best_metric=metric,
        early_stopping=3,
        learning_rate=1.0,
        learning_rate_schedule="plateau",
        learning_rate_patience=2,
    )
    validator, saver, reporter = MagicMock(), MagicMock(), MagicMock()
    state = TrainingState(MagicMock(step=10), Schedule(settings), Meter(sampled=False))
    saved, rates, stopped = [], [], []
    for loss, bleu in zip((3.0, 2.0, 2.1, 2.2, 2.3), (5.0, 4.0, 6.0, 6.0, 5.9), strict=True):
        resumed = TrainingState(MagicMock(step=10), Schedule(settings), Meter(sampled=False))
        resumed.restore({"step": 10, **json.loads(json.dumps(state.metadata()))})
        state, before = resumed, saver.save_best.call_count
        validator.loss.return_value = CorpusLoss(nats=10 * loss, tokens=10, samples=3)
        validator.bleu.return_value = bleu
        Chief(state, settings, validator, reporter, saver).validate()
        assert reporter.log_validation.call_args.args[4] == bleu
        saved.append(saver.save_best.call_count > before)
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
    chief = Chief(TrainingState(learner, Schedule(settings), Meter(False)), settings, None, MagicMock(), saver)
    saved: dict[str, list[int]] = {"save_snapshot": [], "save_checkpoint": []}
    for name, steps in saved.items():
        getattr(saver, name).side_effect = lambda *_, steps=steps: steps.append(learner.step)
    for learner.step in range(1, 9):
        chief.save(last=learner.step == 8)
    assert saved == {"save_snapshot": [4, 8], "save_checkpoint": [3, 6, 8]}
