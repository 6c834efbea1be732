"""What only the chief does: report, validate and save."""

from __future__ import annotations

import math
import time
from typing import Any

import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.training.loop import Role, TrainingState
from seq2seq_chat.training.reports import Reports
from seq2seq_chat.training.saving import Saver
from seq2seq_chat.training.validation import Validator


class LossNotFinite(Exception):
    """The loss or the weights became infinite or NaN; the message says what to try."""


class Chief(Role):
    """The process that keeps the run; the only one, unless several workers train together.

    Args:
        state: what the training changes.
        settings: how often to save, and what to suggest when the training diverges.
        validator: measures the model on the validation corpus, if there is one.
        reports: where metrics go.
        saver: where checkpoints go.
    """

    def __init__(
        self, state: TrainingState, settings: Training, validator: Validator | None, reports: Reports, saver: Saver
    ) -> None:
        self._state, self._settings = state, settings
        self._validator, self._reports, self._saver = validator, reports, saver

    def log(self, line: dict[str, Any]) -> None:
        """Write a line of metrics. Raises LossNotFinite."""
        self._ensure_finite_loss()
        self._reports.training(line)

    def validate(self) -> None:
        """Measure the exact loss, keep the best weights, and reply to a few utterances. Raises LossNotFinite."""
        self._ensure_finite_loss()
        if self._validator is None:
            return
        state, start = self._state, time.monotonic()
        result = self._validator.loss()
        improved = result.loss < state.best_loss
        self._reports.validation(state.step, result, time.monotonic() - start, improved)
        if not math.isfinite(result.loss):
            raise self._not_finite("validation loss")
        if improved:
            state.best_loss = result.loss
            self._saver.save_best()
        if state.schedule.record_validation(improved):
            rate = state.schedule.learning_rate(state.step)
            self._reports.message(f"the validation loss did not improve; the learning rate drops to {rate:g}")
        if state.schedule.stopped_early:
            patience = self._settings.early_stopping
            self._reports.message(f"stopped early: no improvement in {patience} validations; the best weights are kept")
        for reply in self._validator.replies():
            self._reports.reply(state.step, reply)

    def save(self, last: bool) -> None:
        """Save a snapshot and a checkpoint where they are due. Raises LossNotFinite."""
        step, settings = self._state.step, self._settings
        if settings.snapshot_every and step % settings.snapshot_every == 0:
            self._ensure_finite_loss()
            self._ensure_finite_weights()
            self._saver.save_snapshot()
        if step % settings.checkpoint_every == 0 or last:
            self._save_checkpoint()
        self._saver.check()

    def finish(self) -> None:
        """Save a checkpoint after an interruption or early stopping, and wait until everything is written."""
        step, settings = self._state.step, self._settings
        if step % settings.checkpoint_every and step < settings.steps:
            self._save_checkpoint()
        self._saver.finish()

    def close(self) -> None:
        """Wait until nothing is being written."""
        self._saver.drain()

    def _save_checkpoint(self) -> None:
        self._ensure_finite_loss()
        self._ensure_finite_weights()
        self._saver.save_checkpoint({**self._state.metadata(), "lines": self._reports.flush()})

    def _ensure_finite_loss(self) -> None:
        sums = self._state.meter.sums()
        if not (math.isfinite(sums["nats"]) and math.isfinite(sums["gradient_norm"])):
            raise self._not_finite("loss")

    def _ensure_finite_weights(self) -> None:
        """The last update may have diverged, which the loss computed before it does not show."""
        weights = self._state.learner.model.trainable_variables
        if not all(bool(tf.reduce_all(tf.math.is_finite(variable))) for variable in weights):
            raise self._not_finite("weights")

    def _not_finite(self, what: str) -> LossNotFinite:
        self._saver.finish()
        saved = self._saver.saved_step
        kept = f"the checkpoint of step {saved:,} was saved before that" if saved else "nothing was saved"
        verb = "are" if what == "weights" else "is"
        return LossNotFinite(
            f"the {what} {verb} not finite at step {self._state.step:,}; {kept}. Try a lower "
            f"training.learning_rate (now {self._settings.learning_rate:g}) or a lower "
            f"training.gradient_clipping (now {self._settings.gradient_clipping or 'off'})"
        )
