"""What only the chief does: report, validate and save."""

from __future__ import annotations

import math
import time
from typing import Any

import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.training.loop import Role, TrainingState
from seq2seq_chat.training.reporter import Reporter
from seq2seq_chat.training.saving import Saver
from seq2seq_chat.training.validation import Validator

METRICS = {"loss": "loss", "bleu": "BLEU"}


class TrainingDiverged(Exception):
    """The loss or the weights are infinite or NaN; the message says what to try."""


class Chief(Role):
    """The process that writes the run; the only one, unless several workers train together.

    Args:
        state: everything that training changes.
        settings: how often to save, and what to suggest when training diverges.
        validator: evaluates the model on the validation corpus; None without one.
        reporter: where metrics go.
        saver: where checkpoints go.
    """

    def __init__(
        self, state: TrainingState, settings: Training, validator: Validator | None, reporter: Reporter, saver: Saver
    ) -> None:
        self._state, self._settings = state, settings
        self._validator, self._reporter, self._saver = validator, reporter, saver

    def log_metrics(self, metrics: dict[str, Any]) -> None:
        """Report training metrics. Raises TrainingDiverged."""
        self._ensure_finite_loss()
        self._reporter.log_metrics(metrics)

    def validate(self) -> None:
        """Compute the validation loss and BLEU, save the best weights, log sample replies. Raises TrainingDiverged."""
        self._ensure_finite_loss()
        if self._validator is None:
            return
        state, start = self._state, time.monotonic()
        result = self._validator.loss()
        finite = math.isfinite(result.loss)
        bleu = self._validator.bleu() if finite else None
        improved = finite and state.record_best(result.loss, bleu, self._settings.best_metric)
        self._reporter.log_validation(state.step, result, time.monotonic() - start, improved, bleu)
        if not finite:
            raise self._diverged("validation loss")
        if improved:
            self._saver.save_best()
        if state.schedule.record_validation(improved):
            rate, metric = state.schedule.learning_rate(state.step), METRICS[self._settings.best_metric]
            self._reporter.log(f"the validation {metric} did not improve; the learning rate drops to {rate:g}")
        if state.schedule.stopped_early:
            patience = self._settings.early_stopping
            self._reporter.log(f"stopped early: no improvement in {patience} validations; the best weights are saved")
        for reply in self._validator.replies():
            self._reporter.log_reply(state.step, reply)

    def save(self, last: bool) -> None:
        """Save a snapshot and a checkpoint where they are due. Raises TrainingDiverged."""
        step, settings = self._state.step, self._settings
        if settings.snapshot_every and step % settings.snapshot_every == 0:
            self._ensure_finite_loss()
            self._ensure_finite_weights()
            self._saver.save_snapshot()
        if step % settings.checkpoint_every == 0 or last:
            self._save_checkpoint()
        self._saver.poll()

    def finish(self) -> None:
        """Save a checkpoint after an interruption or early stopping, and wait until everything is written."""
        step, settings = self._state.step, self._settings
        if step % settings.checkpoint_every and step < settings.steps:
            self._save_checkpoint()
        self._saver.finish()

    def close(self) -> None:
        """Wait until no file is being written."""
        self._saver.drain()

    def _save_checkpoint(self) -> None:
        self._ensure_finite_loss()
        self._ensure_finite_weights()
        self._saver.save_checkpoint({**self._state.metadata(), "lines": self._reporter.flush()})

    def _ensure_finite_loss(self) -> None:
        sums = self._state.meter.sums()
        if not (math.isfinite(sums["nats"]) and math.isfinite(sums["gradient_norm"])):
            raise self._diverged("loss")

    def _ensure_finite_weights(self) -> None:
        """The last update may have diverged, which the loss computed before it does not show."""
        weights = self._state.learner.model.trainable_variables
        if not all(bool(tf.reduce_all(tf.math.is_finite(variable))) for variable in weights):
            raise self._diverged("weights")

    def _diverged(self, quantity: str) -> TrainingDiverged:
        self._saver.finish()
        saved = self._saver.saved_step
        outcome = f"the checkpoint of step {saved:,} was saved before that" if saved >= 0 else "nothing was saved"
        verb = "are" if quantity == "weights" else "is"
        return TrainingDiverged(
            f"the {quantity} {verb} not finite at step {self._state.step:,}; {outcome}. Try a lower "
            f"training.learning_rate (now {self._settings.learning_rate:g}) or a lower "
            f"training.gradient_clipping (now {self._settings.gradient_clipping or 'off'})"
        )
