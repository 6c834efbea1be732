"""The training loop, and what the chief and the other workers do besides training steps."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.system.signals import StopRequest
from seq2seq_chat.training.distribution import SINGLE_DEVICE, Distribution
from seq2seq_chat.training.language_model import LanguageModelValidator
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.optimizers import Schedule
from seq2seq_chat.training.reporter import Console, Meter, Reporter
from seq2seq_chat.training.saving import Saver
from seq2seq_chat.training.time_plan import TimePlan
from seq2seq_chat.training.validation import SampleValidator


@dataclass
class TrainingState:
    """Everything that changes during training. A checkpoint contains all of it."""

    learner: Learner[Any]
    schedule: Schedule
    meter: Meter
    best_loss: float = math.inf  # lowest validation loss so far, in nats per token
    best_bleu: float = -math.inf  # highest validation BLEU so far
    trained_settings: Mapping[str, Any] = field(default_factory=dict)  # of the checkpoint to continue from, by path

    @property
    def step(self) -> int:
        """Number of steps done."""
        return self.learner.step

    @property
    def settings(self) -> Training:
        """The settings in force, which a :class:`TimePlan` may change."""
        return self.schedule.settings

    def metadata(self) -> dict[str, Any]:
        """The part of the state that is not in variables, for a checkpoint."""
        best = {"best_loss": self.best_loss, "best_bleu": self.best_bleu}
        return {**best, "meter": self.meter.sums(), "progress": dict(self.schedule.state)}

    def record_best(self, loss: float, bleu: float | None, metric: Literal["loss", "bleu"]) -> bool:
        """Count the results of a validation; returns whether it is the best so far by a metric."""
        scores = {"loss": loss < self.best_loss, "bleu": bleu is not None and bleu > self.best_bleu}
        self.best_loss = min(loss, self.best_loss)
        self.best_bleu = self.best_bleu if bleu is None else max(bleu, self.best_bleu)
        return scores[metric]

    def restore(self, metadata: Mapping[str, Any]) -> bool:
        """Restore what :meth:`metadata` returned; returns whether the order of samples continues as well."""
        self.trained_settings = metadata.get("settings", {})
        self.best_loss = float(metadata["best_loss"])
        self.best_bleu = float(metadata.get("best_bleu", -math.inf))
        self.meter.restore(metadata["meter"])
        self.schedule.restore(metadata.get("progress", {}))
        return self.learner.resume_at(int(metadata["step"]), metadata)


class Trainer:
    """Trains until the configured number of steps, early stopping, or a signal.

    Args:
        chief: validates, saves and reports; None for the other workers, which only show metrics.
        plan: fits the number of steps to the time that there is; None: it is fixed, as with several workers.
    """

    def __init__(
        self,
        state: TrainingState,
        chief: Chief | None,
        console: Console,
        distribution: Distribution = SINGLE_DEVICE,
        plan: TimePlan | None = None,
    ) -> None:
        self.state, self.console = state, console
        self._chief, self._distribution, self._plan = chief, distribution, plan
        self._stop_request, self._stopping = StopRequest(), False
        self._paused = 0.0  # seconds that plan and validation took after the last step

    @property
    def is_finished(self) -> bool:
        """Whether training has reached its last step or was stopped early."""
        return self.state.step >= self.state.settings.steps or self.state.schedule.stopped_early

    def train(self) -> int | None:
        """Train; returns the number of the signal that interrupted training, or None if it finished."""
        self.console.start_progress(self.state.step, None if self._plan else self.state.settings.steps)
        try:
            with self._stop_request.on_signals():
                while not self.is_finished and not self._stopping:
                    start, traces = time.monotonic(), self.state.learner.traces
                    self._train_step()
                    self._after_step()
                    if self._plan is not None and self.state.learner.traces == traces:
                        self._plan.add_step(time.monotonic() - start - self._paused)
                if self._chief is not None:
                    self._chief.finish()
        finally:
            self.console.stop_progress()
            self.state.learner.close()
            if self._chief is not None:
                self._chief.close()
        if self._stopping and not self.is_finished:
            return self._stop_request.signal_number or signal.SIGTERM  # or another worker received the signal
        return None

    def _train_step(self) -> None:
        state, start = self.state, time.monotonic()
        state.learner.set_learning_rate(state.schedule.learning_rate(state.step))
        traces = state.learner.traces
        result = state.learner.train_step(stop=bool(self._stop_request))
        seconds = time.monotonic() - start
        state.meter.add(result, seconds, state.learner.data_seconds)
        self.console.advance(state.step, state.meter, seconds if state.learner.traces != traces else 0.0)
        # workers stop together, after the first step at which all of them know about the request
        self._stopping = bool(self._stop_request) if self._distribution.workers == 1 else float(result.stop) > 0

    def _after_step(self) -> None:
        state, start = self.state, time.monotonic()
        if self._plan is not None and self._chief is not None and self._plan.is_due(state.step):
            self._fit_to_time(self._plan, self._chief)
        self._paused = time.monotonic() - start
        last = state.step >= state.settings.steps
        if state.step % state.settings.log_every == 0 or last:
            metrics = state.meter.metrics(state.step)
            metrics["learning_rate"] = state.schedule.learning_rate(state.step - 1)
            (self._chief or self.console).log_metrics(metrics)
            state.meter.reset()
        if state.step % state.settings.validate_every == 0 or last:
            self._paused += self._validate()
            state.schedule.restore(self._distribution.broadcast(state.schedule.state))
        if self._chief is not None:
            self._chief.save(last)

    def _validate(self) -> float:
        """Validate; returns the seconds that it took."""
        start = time.monotonic()
        if self._chief is not None:
            self._chief.validate()
        seconds = time.monotonic() - start
        if self._plan is not None:
            self._plan.validation_seconds = seconds
        return seconds

    def _fit_to_time(self, plan: TimePlan, chief: Chief) -> None:
        """Change the number of steps, and before the first plan, time a validation."""
        if plan.is_first:
            chief.warm_up()
            self._validate()
        self.state.schedule.settings = plan.fit(self.state.settings, self.state.step)
        self.console.set_steps(self.state.settings.steps, self.state.step)
        self.console.log(plan.describe(self.state.settings, self.state.step))
        chief.save_plan()


METRICS = {"loss": "loss", "bleu": "BLEU"}


class TrainingDiverged(Exception):
    """The loss or the weights are infinite or NaN; the message says what to try."""


class Chief:
    """The process that writes the run; the only one, unless several workers train together.

    Args:
        validator: evaluates the model on the validation corpus; None without one.
    """

    def __init__(
        self,
        state: TrainingState,
        validator: SampleValidator | LanguageModelValidator | None,
        reporter: Reporter,
        saver: Saver,
        save_settings: Callable[[Training], object],
    ) -> None:
        self._state = state
        self._validator, self._reporter, self._saver = validator, reporter, saver
        self._save_settings = save_settings

    def log_metrics(self, metrics: dict[str, Any]) -> None:
        """Report training metrics, see :meth:`Meter.metrics`. Raises TrainingDiverged."""
        self._ensure_finite_loss()
        self._reporter.log_metrics(metrics)

    def warm_up(self) -> None:
        """Build the graphs of validations, so that they can be timed."""
        if self._validator is not None:
            self._validator.loss()
            self._validator.bleu()
            self._validator.replies()

    def validate(self) -> None:
        """Compute the validation loss and BLEU, save the best weights, log sample replies. Raises TrainingDiverged."""
        self._ensure_finite_loss()
        if self._validator is None:
            return
        state, start = self._state, time.monotonic()
        result = self._validator.loss()
        finite = math.isfinite(result.loss)
        bleu = self._validator.bleu() if finite else None
        improved = finite and state.record_best(result.loss, bleu, self._state.settings.best_metric)
        self._reporter.log_validation(state.step, result, time.monotonic() - start, improved, bleu)
        if not finite:
            raise self._diverged("validation loss")
        if improved:
            self._saver.save_best()
        if state.schedule.record_validation(improved):
            rate, metric = state.schedule.learning_rate(state.step), METRICS[self._state.settings.best_metric]
            self._reporter.log(f"the validation {metric} did not improve; the learning rate drops to {rate:g}")
        if state.schedule.stopped_early:
            patience = self._state.settings.early_stopping
            self._reporter.log(f"stopped early: no improvement in {patience} validations; the best weights are saved")
        for reply in self._validator.replies():
            self._reporter.log_reply(state.step, reply)

    def save_plan(self) -> None:
        """Save the settings that have changed, and a checkpoint. Raises TrainingDiverged."""
        self._save_settings(self._state.settings)
        self._save_checkpoint()

    def save(self, last: bool) -> None:
        """Save a snapshot and a checkpoint where they are due; ``last`` if training ends. Raises TrainingDiverged."""
        step, settings = self._state.step, self._state.settings
        if settings.snapshot_every and step % settings.snapshot_every == 0:
            self._ensure_finite_loss()
            self._ensure_finite_weights()
            self._saver.save_snapshot()
        if step % settings.checkpoint_every == 0 or last:
            self._save_checkpoint()
        self._saver.poll()

    def finish(self) -> None:
        """Save a checkpoint after an interruption or early stopping, and wait until everything is written."""
        step, settings = self._state.step, self._state.settings
        if step % settings.checkpoint_every and step < settings.steps:
            self._save_checkpoint()
        self._saver.finish()

    def close(self) -> None:
        """Wait until no file is being written, whatever becomes of it: another error may be raised."""
        with suppress(Exception):
            self._saver.finish()

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
            f"training.learning_rate (now {self._state.settings.learning_rate:g}) or a lower "
            f"training.gradient_clipping (now {self._state.settings.gradient_clipping or 'off'})"
        )
