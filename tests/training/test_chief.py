"""What the chief does after a validation."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

from seq2seq_chat.config import Training
from seq2seq_chat.training.chief import Chief
from seq2seq_chat.training.loop import TrainingState
from seq2seq_chat.training.metrics import Meter
from seq2seq_chat.training.schedules import Schedule
from seq2seq_chat.training.validation import CorpusLoss


def test_the_best_validation_is_the_lowest_so_far() -> None:
    """Not one that is only lower than the validation before it."""
    settings = Training(early_stopping=3)
    validator, saver, reporter = MagicMock(), MagicMock(), MagicMock()
    state = TrainingState(MagicMock(step=10), Schedule(settings), Meter(sampled=False))
    chief: Any = Chief(state, settings, validator, reporter, saver)
    saved, stopped = [], []
    for loss in (3.0, 2.0, 2.5, 2.2, 1.9, 1.9, 2.4, 2.1):
        validator.loss.return_value = CorpusLoss(nats=10 * loss, tokens=10, samples=3)
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
