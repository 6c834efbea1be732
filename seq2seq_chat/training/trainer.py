"""The training loop of a run."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

import tensorflow as tf

from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.corpus.encoded import EncodedCorpus
from seq2seq_chat.corpus.text import detokenize
from seq2seq_chat.corpus.vocabulary import EOS, Vocabulary
from seq2seq_chat.decoding.reply_search import ReplySearch
from seq2seq_chat.errors import UserError
from seq2seq_chat.model.embeddings import load_vectors
from seq2seq_chat.model.seq2seq import outline, parameters_by_part
from seq2seq_chat.runs import Run, RunError
from seq2seq_chat.training.batches import configured_buckets
from seq2seq_chat.training.checkpoints import DamagedCheckpoint, load_variables, save_variables
from seq2seq_chat.training.console import Console, duration
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.memory import available_memory, ensure_memory, estimate_memory, gigabytes
from seq2seq_chat.training.metrics import JsonLines, Meter
from seq2seq_chat.training.parts import batch_parts
from seq2seq_chat.training.precision import ensure_available
from seq2seq_chat.training.restore import ensure_same_words
from seq2seq_chat.training.validation import LossFunction, spread


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

    Raises:
        UserError: the corpora, the memory, the checkpoints or the pretrained vectors do not allow it.
    """

    def __init__(self, run: Run, config: Config, vocabulary: Vocabulary) -> None:
        self.run, self.config, self.vocabulary = run, config, vocabulary
        self.console = Console(run.log_file)
        data = config.data
        self.corpus = EncodedCorpus.open(data.train, vocabulary, level=data.level, pairing=data.pairing)
        self.validation = (
            EncodedCorpus.open(data.validation, vocabulary, level=data.level, pairing=data.pairing)
            if data.validation
            else None
        )
        ensure_available(config.training.precision)
        self._announce()
        self.learner = Learner(config, len(vocabulary), self.corpus)
        self._loss = LossFunction(self.learner.model, self.learner.buckets, data.reverse_input, batch_parts(config))
        self._search = ReplySearch(
            self.learner.model, Decoding(method="greedy", allow_unknown=config.decoding.allow_unknown)
        )
        self._metrics, self._samples = JsonLines(run.metrics_file), JsonLines(run.samples_file)
        self._meter = Meter(sampled=self.learner.sampled)
        self._tensorboard = tf.summary.create_file_writer(str(run.tensorboard))
        self._best_loss = math.inf
        self._saved_step = 0
        self._signal: Optional[int] = None
        self._restore()

    def train(self) -> None:
        """Train until the configured step.

        Raises:
            LossNotFinite: the loss is no number any more; the last checkpoint is from before.
            Interrupted: SIGINT or SIGTERM came; everything is saved.
        """
        training = self.config.training
        if self.learner.step >= training.steps:
            self.console.say(f"already trained for {self.learner.step:,} steps; raise training.steps to go on")
            return
        self.console.begin(self.learner.step, training.steps)
        try:
            with self._signals():
                while self.learner.step < training.steps and self._signal is None:
                    self._train_one_step()
                    self._report_and_save()
                if self._saved_step < self.learner.step:
                    self._check_finite()
                    self._save_checkpoint()
        finally:
            self.console.end()
        if self._signal is not None and self.learner.step < training.steps:
            raise Interrupted(self.run, self._signal)

    def _train_one_step(self) -> None:
        begun = time.monotonic()
        result = self.learner.learn()
        self._meter.add(result, time.monotonic() - begun, self.learner.data_seconds)
        self.console.advance(self.learner.step, self._meter)

    def _report_and_save(self) -> None:
        training, last = self.config.training, self.learner.step == self.config.training.steps
        if self.learner.step % training.log_every == 0 or last:
            self._check_finite()
            self._log_training()
        if self.learner.step % training.validate_every == 0 or last:
            self._check_finite()
            self._validate()
        if training.snapshot_every and self.learner.step % training.snapshot_every == 0:
            self._check_finite()
            self._check_weights()
            save_variables(
                self.run.snapshot_path(self.learner.step),
                self.learner.model.trainable_variables,
                self._metadata,
            )
        if self.learner.step % training.checkpoint_every == 0 or last:
            self._check_finite()
            self._save_checkpoint()

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
        saved = (
            f"the checkpoint of step {self._saved_step:,} is from before" if self._saved_step else "nothing was saved"
        )
        return LossNotFinite(
            f"the {what} is not a finite number any more at step {self.learner.step:,}; {saved}. Try a lower "
            f"training.learning_rate (it is {self.config.training.learning_rate:g}) or a lower "
            f"training.gradient_clipping (it is {self.config.training.gradient_clipping or 'not set'})"
        )

    def _log_training(self) -> None:
        line = self._meter.line(self.learner.step)
        self._meter.reset()
        self._metrics.append(line)
        self.console.training_line(line)
        with self._tensorboard.as_default(step=self.learner.step):
            tf.summary.scalar("train/loss", line["loss"])
            tf.summary.scalar("train/perplexity", line["perplexity"])
            tf.summary.scalar("train/gradient_norm", line["gradient_norm"])
            tf.summary.scalar("train/target_tokens_per_second", line["tokens"] / max(line["seconds"], 1e-9))

    def _validate(self) -> None:
        if self.validation is None:
            return
        begun = time.monotonic()
        result = self._loss(self.validation, self.config.training.validation_limit)
        seconds = time.monotonic() - begun
        line = {
            "step": self.learner.step,
            "kind": "validation",
            "loss": result.loss,
            "perplexity": result.perplexity,
            "tokens": result.tokens,
            "seconds": round(seconds, 3),
        }
        self._metrics.append(line)
        with self._tensorboard.as_default(step=self.learner.step):
            tf.summary.scalar("validation/loss", result.loss)
            tf.summary.scalar("validation/perplexity", result.perplexity)
        if not math.isfinite(result.loss):
            raise self._not_finite("validation loss")
        best = result.loss < self._best_loss
        if best:
            self._best_loss = result.loss
            save_variables(self.run.best_path, self.learner.model.trainable_variables, self._metadata)
        self.console.say(
            f"validation at step {self.learner.step:,}: loss {result.loss:.3f} nats per token, perplexity "
            f"{result.perplexity:.1f} on {result.samples:,} samples in {duration(seconds)}"
            + (" (the best so far)" if best else "")
        )
        self._sample_replies()

    def _sample_replies(self) -> None:
        chosen = spread(len(self.validation or []), self.config.training.sample_replies)
        if self.validation is None or not len(chosen):
            return
        model, level = self.config.model, self.config.data.level
        batch = self.validation.batch(
            chosen,
            size=len(chosen),
            source_steps=model.encoder_steps,
            target_steps=model.decoder_steps,
            reverse=self.config.data.reverse_input,
        )
        found = self._search(batch.source, batch.source_length)

        def text(ids: Any) -> str:
            return detokenize(self.vocabulary.tokens(int(i) for i in ids if i != EOS), level)

        for row, index in enumerate(chosen):
            source, target = text(self.validation.source_ids(index)), text(self.validation.target_ids(index))
            reply = text(found.words[row, 0, : found.lengths[row, 0]])
            self._samples.append({"step": self.learner.step, "source": source, "reply": reply, "target": target})
            self.console.say(f"  {source}\n    → {reply}")

    def _save_checkpoint(self) -> None:
        self._check_weights()
        state = {"best_loss": self._best_loss, "meter": self._meter.sums()}
        variables = [*self.learner.variables, *self.learner.precision_variables]
        save_variables(self.run.checkpoint_path(self.learner.step), variables, self._metadata | state)
        self._saved_step = self.learner.step
        # later ones were damaged when this training went on from an earlier one; they must not drive out whole ones
        until_now = [path for step, path in self.run.checkpoints() if step <= self.learner.step]
        for path in until_now[: -self.config.training.keep_checkpoints]:
            path.unlink(missing_ok=True)

    @property
    def _metadata(self) -> dict[str, Any]:
        """What is kept with weights: when they were learned, and the words they belong to."""
        return {
            "step": self.learner.step,
            "vocabulary": self.vocabulary.fingerprint,
            "corpus": self.corpus.fingerprint,
        }

    def _restore(self) -> None:
        """Go on from the newest checkpoint that is whole; where there is none yet, start from the beginning."""
        checkpoints = self.run.checkpoints()
        for step, path in reversed(checkpoints):
            try:
                state = load_variables(path, self.learner.variables, optional=self.learner.precision_variables)
                ensure_same_words(path, state, self.vocabulary)
                self._ensure_same_corpus(state)
            except DamagedCheckpoint as damage:
                self.console.say(
                    f"the checkpoint of step {step:,} is damaged and left aside ({damage}); trying the one before"
                )
                continue
            self.learner.step = self._saved_step = int(state["step"])
            self._best_loss = float(state["best_loss"])
            self._meter.restore(state["meter"])
            self.console.say(f"going on from step {self.learner.step:,}")
            break
        else:
            if checkpoints:  # to begin anew is not what was asked for, and would forget what was learned and reported
                raise RunError(
                    f"run {self.run.name}: every checkpoint is damaged; bring back a copy of one, or start a new run"
                )
            self._start_from_pretrained()
        self._metrics.forget_after(self.learner.step or None)
        self._samples.forget_after(self.learner.step or None)

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
            table.scatter_update(tf.IndexedSlices(vectors, rows))
        self.console.say(f"{len(rows):,} of {len(self.vocabulary):,} words start from the vectors in {path}")

    def _announce(self) -> None:
        parts = parameters_by_part(outline(self.config.model, len(self.vocabulary)))
        listed = ", ".join(f"{part} {count:,}" for part, count in parts.items())
        self.console.say(f"{sum(parts.values()):,} parameters: {listed}")
        estimate, available = estimate_memory(self.config, len(self.vocabulary)), available_memory()
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

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """While training, SIGINT and SIGTERM ask for a stop after the step that is being computed."""

        def ask(number: int, frame: Any) -> None:
            if self._signal is not None:  # asked twice: the person does not want to wait
                raise KeyboardInterrupt
            # not print: it may be what the signal interrupted, and it cannot be entered twice
            os.write(2, b"\nstopping after this step ...\n")
            self._signal = number

        try:
            before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not the main thread: whoever started it handles signals
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
