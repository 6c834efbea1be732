"""The training loop of a run."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from seq2seq_chat.config import Config
from seq2seq_chat.corpus.experiment_data import open_samples
from seq2seq_chat.corpus.vocabulary import Vocabulary
from seq2seq_chat.errors import UserError
from seq2seq_chat.model.embeddings import load_vectors
from seq2seq_chat.model.seq2seq import outline, parameters_by_part
from seq2seq_chat.runs import Run, RunError
from seq2seq_chat.training.batches import configured_buckets
from seq2seq_chat.training.checkpoints import DamagedCheckpoint, load_variables, read_arrays
from seq2seq_chat.training.console import Console
from seq2seq_chat.training.devices import describe_devices
from seq2seq_chat.training.distribution import ALONE, Distribution
from seq2seq_chat.training.fixed import ensure_same_settings, fixed_settings
from seq2seq_chat.training.follower import align, brief
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.memory import available_memory, ensure_memory, estimate_memory, gigabytes
from seq2seq_chat.training.metrics import Meter
from seq2seq_chat.training.parts import batch_parts
from seq2seq_chat.training.precision import ensure_available
from seq2seq_chat.training.reports import ReplySamples, Reports
from seq2seq_chat.training.restore import ensure_same_words
from seq2seq_chat.training.saving import Saver
from seq2seq_chat.training.schedules import Progress
from seq2seq_chat.training.stopping import StopRequest
from seq2seq_chat.training.validation import LossFunction


class LossNotFinite(Exception):
    """The loss became infinite or not a number; the message says what to try."""


class Interrupted(Exception):
    """A signal asked the training to stop, and it saved and stopped."""

    def __init__(self, run: Run, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.run, self.signal_number = run, signal_number


class Trainer:
    """Trains the model of a run, from its newest checkpoint that is whole or from the beginning.

    Args:
        run: where everything is written; held by the caller's lock.
        config: the experiment.
        vocabulary: the run's vocabulary.
        distribution: the devices that learn together; this process leads them.

    Raises:
        UserError: the corpora, the memory, the checkpoints or the pretrained vectors do not allow it.
        WorkerLost: another worker cannot take part.
    """

    def __init__(self, run: Run, config: Config, vocabulary: Vocabulary, distribution: Distribution = ALONE) -> None:
        self.run, self.config, self.vocabulary, self._distribution = run, config, vocabulary, distribution
        self.console = Console(run.log_file)
        data = config.data
        self.corpus = open_samples(data.train, vocabulary, data)
        self.validation = open_samples(data.validation, vocabulary, data) if data.validation else None
        ensure_available(config.training.precision)
        self._announce()
        brief(distribution, config, vocabulary, self.corpus)
        self.learner = Learner(config, len(vocabulary), self.corpus, distribution)
        self._loss = LossFunction(self.learner.model, self.learner.buckets, data.reverse_input, batch_parts(config))
        self._replies = ReplySamples(self.learner.model, config, vocabulary, self.validation)
        self._reports = Reports(run, self.console)
        self._meter = Meter(sampled=self.learner.sampled)
        about = {
            "vocabulary": vocabulary.fingerprint,
            "corpus": self.corpus.fingerprint,
            "settings": fixed_settings(config),
        }
        self._saver = Saver(run, self.learner, about, keep=config.training.keep_checkpoints)
        self._best_loss, self._progress = math.inf, Progress(config.training)
        self._request, self._stopping = StopRequest(), False
        self._restore()
        align(distribution, self.learner, self._progress)

    @property
    def is_finished(self) -> bool:
        """Whether there is no step left to train, or none that would help."""
        return self.learner.step >= self.config.training.steps or self._progress.gave_up

    def train(self) -> None:
        """Train until the configured step.

        Raises:
            LossNotFinite: the loss is no number any more; the last checkpoint is from before.
            Interrupted: SIGINT or SIGTERM came; everything is saved.
        """
        training = self.config.training
        self.console.begin(self.learner.step, training.steps)
        try:
            with self._request.heard():
                while not self.is_finished and not self._stopping:
                    self._train_one_step()
                    self._report_and_save()
                if self.learner.step % training.checkpoint_every and self.learner.step < training.steps:
                    self._check_finite()
                    self._save_checkpoint()
                self._saver.finish()
        finally:
            self.console.end()
            self._saver.settle()
        if self._stopping and not self.is_finished:
            raise Interrupted(self.run, self._request.signal or signal.SIGTERM)

    def _train_one_step(self) -> None:
        begun = time.monotonic()
        self.learner.set_rate(self._progress.learning_rate(self.learner.step))
        result = self.learner.learn(stop=self._request.made)
        self._meter.add(result, time.monotonic() - begun, self.learner.data_seconds)
        self.console.advance(self.learner.step, self._meter)
        # several workers stop after the same step: the first that all of them know of
        self._stopping = self._request.made if self._distribution.workers == 1 else bool(result.stop > 0)

    def _report_and_save(self) -> None:
        training, last = self.config.training, self.learner.step == self.config.training.steps
        if self.learner.step % training.log_every == 0 or last:
            self._check_finite()
            self._log_training()
        if self.learner.step % training.validate_every == 0 or last:
            self._check_finite()
            self._validate()
            self._distribution.from_first(self._progress.state)  # which a validation may have changed
        if training.snapshot_every and self.learner.step % training.snapshot_every == 0:
            self._check_finite()
            self._check_weights()
            self._saver.save_snapshot()
        if self.learner.step % training.checkpoint_every == 0 or last:
            self._check_finite()
            self._save_checkpoint()
        self._saver.check()

    def _check_finite(self) -> None:
        sums = self._meter.sums()
        if math.isfinite(sums["nats"]) and math.isfinite(sums["gradient_norm"]):
            return
        raise self._not_finite("loss")

    def _check_weights(self) -> None:
        """The last update may have been the one too many, which the loss before it does not show."""
        if not all(bool(tf.reduce_all(tf.math.is_finite(v))) for v in self.learner.model.trainable_variables):
            raise self._not_finite("weights")

    def _not_finite(self, what: str) -> LossNotFinite:
        self._saver.finish()
        step = self._saver.saved_step
        saved = f"the checkpoint of step {step:,} is from before" if step else "nothing was saved"
        return LossNotFinite(
            f"the {what} is not a finite number any more at step {self.learner.step:,}; {saved}. Try a lower "
            f"training.learning_rate (it is {self.config.training.learning_rate:g}) or a lower "
            f"training.gradient_clipping (it is {self.config.training.gradient_clipping or 'not set'})"
        )

    def _log_training(self) -> None:
        line = self._meter.line(self.learner.step)
        line["learning_rate"] = self._progress.learning_rate(self.learner.step - 1)
        self._meter.reset()
        self._reports.training(line)

    def _validate(self) -> None:
        if self.validation is None:
            return
        begun = time.monotonic()
        result = self._loss(self.validation, self.config.training.validation_limit)
        best = result.loss < self._best_loss
        self._reports.validation(self.learner.step, result, time.monotonic() - begun, best)
        if not math.isfinite(result.loss):
            raise self._not_finite("validation loss")
        if best:
            self._best_loss = result.loss
            self._saver.save_best()
        if self._progress.validated(best):
            rate = self._progress.learning_rate(self.learner.step)
            self.console.say(f"the validation got no better; the learning rate is {rate:g} from here on")
        if self._progress.gave_up:
            self.console.say(
                f"no better validation in {self.config.training.early_stopping}; stopped early, the best is kept"
            )
        self._replies.report(self.learner.step, self._reports)

    def _save_checkpoint(self) -> None:
        self._check_weights()
        state: dict[str, Any] = {
            "best_loss": self._best_loss,
            "meter": self._meter.sums(),
            "progress": self._progress.state,
        }
        state["lines"] = self._reports.secure()
        self._saver.save_checkpoint(state)

    def _restore(self) -> None:
        """Go on from the newest checkpoint that is whole; where there is none yet, start from the beginning."""
        self.run.tidy()
        checkpoints, expected = self.run.checkpoints(), {}
        for step, path in reversed(checkpoints):
            try:
                before = read_arrays(path, [])[1].get("settings", {})
                ensure_same_settings(self.run.name, before, fixed_settings(self.config))
                state = load_variables(path, self.learner.variables, optional=self.learner.precision_variables)
                ensure_same_words(path, state, self.vocabulary)
                self._ensure_same_corpus(state)
            except DamagedCheckpoint as damage:
                self.console.say(
                    f"the checkpoint of step {step:,} is damaged and left aside ({damage}); trying the one before"
                )
                continue
            self._saver.saved_step = int(state["step"])
            same_order = self.learner.go_on(int(state["step"]), state)
            self._best_loss = float(state["best_loss"])
            expected = state.get("lines", {})
            self._meter.restore(state["meter"])
            self._progress.restore(state.get("progress", {}))
            self.console.say(
                f"going on from step {self.learner.step:,}"
                + ("" if same_order else "; with another batch size a new order of the samples begins")
            )
            break
        else:
            if checkpoints:  # to begin anew is not what was asked for, and would forget what was learned and reported
                raise RunError(
                    f"run {self.run.name}: every checkpoint is damaged; bring back a copy of one, or start a new run"
                )
            self._start_from_pretrained()
        self._reports.forget_after(self.learner.step or None, expected)

    def _ensure_same_corpus(self, state: Mapping[str, Any]) -> None:
        """A step number is a place in the corpus, and in another corpus it is another place."""
        if state.get("corpus", self.corpus.fingerprint) != self.corpus.fingerprint:
            raise UserError(
                f"{self.config.data.train} is not the corpus that run {self.run.name} has been learning; "
                "name the old one with --set data.train=FILE, or start a new run"
            )

    def _start_from_pretrained(self) -> None:
        path = self.config.model.pretrained_embeddings
        if not path:
            return
        rows, vectors = load_vectors(path, self.vocabulary.words, self.config.model.embedding_size)
        if not len(rows):
            raise UserError(f"{path}: has a vector for none of the {len(self.vocabulary):,} words of the vocabulary")
        tables = {
            table.ref(): table
            for table in (self.learner.model.source_embedding.table, self.learner.model.target_embedding.table)
        }
        for table in tables.values():
            values = table.numpy()
            values[rows] = vectors
            table.assign(values)
        self.console.say(f"{len(rows):,} of {len(self.vocabulary):,} words start from the vectors in {path}")

    def _announce(self) -> None:
        self.console.say(describe_devices(self._distribution.devices // self._distribution.workers))
        parts = parameters_by_part(outline(self.config.model, len(self.vocabulary)))
        listed = ", ".join(f"{part} {count:,}" for part, count in parts.items())
        self.console.say(f"{sum(parts.values()):,} parameters: {listed}")
        sharing = self._distribution
        estimate = estimate_memory(self.config, len(self.vocabulary), sharing.devices, sharing.together)
        available = available_memory()
        if sharing.devices > 1:
            self.console.say(
                f"{sharing.devices} devices share each batch of {self.config.training.batch_size} samples"
                + (f"; {sharing.workers} workers" if sharing.workers > 1 else "")
            )
        self.console.say(
            f"about {gigabytes(estimate.total)} of memory: parameters {gigabytes(estimate.parameters)}, optimizer "
            f"{gigabytes(estimate.optimizer)}, gradients {gigabytes(estimate.gradients)}, activations "
            f"{gigabytes(estimate.activations)}, program {gigabytes(estimate.process)}; {gigabytes(available)} are free"
        )
        ensure_memory(estimate, available)
        buckets = configured_buckets(self.config, self.corpus)
        self.console.say(
            f"{len(self.corpus):,} samples to learn from ({100 * self.corpus.unknown_share():.1f} % of their words are "
            "<unknown>)"
            + (f", {len(self.validation):,} to validate with" if self.validation else ", none to validate with")
            + f"; batches of {' or '.join(f'{source}+{target}' for source, target in buckets)} steps"
        )
