"""What only the chief does: report, validate and save."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from seq2seq_chat.architecture.memory import ensure_memory, estimate_memory
from seq2seq_chat.config import Config, Training, parse_config
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.model.micro_batches import micro_batch_count
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import available_memory
from seq2seq_chat.system.versions import make_deterministic
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.training.distribution import Distribution, connect_workers, ensure_divisible
from seq2seq_chat.training.learner import build_learner
from seq2seq_chat.training.loop import Role, Trainer, TrainingState
from seq2seq_chat.training.optimizers import Schedule, ensure_available
from seq2seq_chat.training.rendezvous import Cluster
from seq2seq_chat.training.reporter import Console, Meter, Reporter
from seq2seq_chat.training.sampler import open_training_corpus, training_batches
from seq2seq_chat.training.saving import Saver
from seq2seq_chat.training.validation import Validator

METRICS = {"loss": "loss", "bleu": "BLEU"}


class TrainingDiverged(Exception):
    """The loss or the weights are infinite or NaN; the message says what to try."""


class Chief(Role):
    """The process that writes the run; the only one, unless several workers train together.

    Args:
        state: everything that training changes.
        validator: evaluates the model on the validation corpus; None without one.
        reporter: where metrics go.
        saver: where checkpoints go.
        save_settings: saves changed settings in the run.
    """

    def __init__(
        self,
        state: TrainingState,
        validator: Validator | None,
        reporter: Reporter,
        saver: Saver,
        save_settings: Callable[[Training], object],
    ) -> None:
        self._state = state
        self._validator, self._reporter, self._saver = validator, reporter, saver
        self._save_settings = save_settings

    def log_metrics(self, metrics: dict[str, Any]) -> None:
        """Report training metrics. Raises TrainingDiverged."""
        self._ensure_finite_loss()
        self._reporter.log_metrics(metrics)

    def warm_up(self) -> None:
        """Build the graphs of validations."""
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
        """Save a snapshot and a checkpoint where they are due. Raises TrainingDiverged."""
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
            f"training.learning_rate (now {self._state.settings.learning_rate:g}) or a lower "
            f"training.gradient_clipping (now {self._state.settings.gradient_clipping or 'off'})"
        )


class StoppedByChief(Exception):
    """A signal to one of the workers stopped all of them; the chief saves a checkpoint."""

    def __init__(self, step: int, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.step, self.signal_number = step, signal_number


def broadcast_setup(distribution: Distribution, config: Config, codecs: Codecs, corpus: Dataset) -> None:
    """Send the other workers what to train, and wait until they are ready.

    Raises:
        WorkerLost: a worker cannot take part; the message says why.
    """
    settings = json.loads(config.to_json())
    # of the chief, for all workers, as random numbers depend on it
    settings["training"]["micro_batches"] = micro_batch_count(config.model, config.training)
    distribution.broadcast({"config": settings, "codecs": codecs.to_json(), "corpus": corpus.fingerprint})
    distribution.barrier()


def synchronize(distribution: Distribution, state: TrainingState) -> None:
    """Give all workers the chief's step, weights and learning rate."""
    learner = state.learner
    received = distribution.broadcast(
        {"step": learner.step, "sampler": learner.sampler_state, "schedule": state.schedule.state}
    )
    learner.resume_at(received["step"], received["sampler"])
    state.schedule.restore(received["schedule"])
    distribution.broadcast_variables([*learner.variables, *learner.loss_scale_variables])


def train_as_worker(cluster: Cluster) -> int:
    """Train as a worker until the chief stops; returns the number of steps.

    Raises:
        UserError: the workers did not connect, or this one cannot take part.
        WorkerLost: another worker is gone.
        StoppedByChief: a signal to one of the workers stopped all of them after the same step.
    """
    console = Console()
    distribution = connect_workers(cluster, console.log)
    with distribution.detect_lost_workers():
        trainer = build_worker(distribution, cluster, console)
        console.log(f"{cluster.describe(cluster.task_index)} starts training at step {trainer.state.step:,}")
        signal_number = trainer.train()
    if signal_number is not None:
        raise StoppedByChief(trainer.state.step, signal_number)
    return trainer.state.step


class Worker(Role):
    """Shows metrics, and leaves everything else to the chief."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def log_metrics(self, metrics: dict[str, Any]) -> None:
        """Show the training metrics."""
        self._console.log_metrics(metrics)


def build_worker(distribution: Distribution, cluster: Cluster, console: Console) -> Trainer:
    """Build the trainer for the setup that the chief broadcasts.

    Raises:
        UserError: the corpus is missing or differs from the chief's; the precision or the memory is not available.
    """
    setup = distribution.broadcast(None)
    config = parse_config(setup["config"], where=cluster.describe(0))
    make_deterministic(config.seed, config.training.deterministic)
    try:
        codecs = Codecs.from_json(setup["codecs"], config.data, cluster.describe(0))
        corpus = _open_corpus(config, codecs, distribution, cluster, setup["corpus"])
    except UserError as error:
        distribution.barrier(str(error))
        raise
    distribution.barrier()
    learner = build_learner(config, codecs, training_batches(config, codecs, corpus), distribution)
    state = TrainingState(learner, Schedule(config.training), Meter(sampled=learner.sampled))
    synchronize(distribution, state)
    return Trainer(state, Worker(console), console, distribution)


def _open_corpus(
    config: Config, codecs: Codecs, distribution: Distribution, cluster: Cluster, fingerprint: str
) -> Dataset:
    """Open the corpus and check that this machine can train on it."""
    ensure_divisible(config.training.batch_size, distribution.devices)
    ensure_available(config.training.precision)
    corpus = open_training_corpus(config, codecs, lambda message: None)  # the chief reports it
    if corpus.fingerprint != fingerprint:
        raise UserError(f"{config.data.train} differs from the corpus of {cluster.describe(0)}; copy that file here")
    estimate = estimate_memory(
        config,
        *codecs.vocabulary_sizes,
        devices=distribution.devices,
        replicas_in_memory=distribution.replicas_in_memory,
    )
    ensure_memory(estimate, available_memory())
    return corpus
