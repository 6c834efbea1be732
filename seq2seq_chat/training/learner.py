"""A model that learns from a corpus, step by step."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Config, Training
from seq2seq_chat.data.batches import Batches, configured_buckets
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.data.dataset import Batch, Dataset
from seq2seq_chat.data.source_noise import SourceNoise
from seq2seq_chat.inference.dynamic import build_model
from seq2seq_chat.model.eager import call_with_arrays
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training.distribution.collective import SINGLE_DEVICE, Distribution
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.precision import loss_scale_variables
from seq2seq_chat.training.sampler import BatchSampler
from seq2seq_chat.training.step import StepResult, TrainingStep


class Learner:
    """A model, its optimizer and the order of its samples.

    All state is in ``variables``, ``loss_scale_variables``, ``step`` and ``sampler_state``.

    Args:
        model: the model to train; its seed is that of the experiment.
        batches: the training corpus.
        settings: batch size, optimizer, loss.
        source_noise: noise in the sources, if any.
        distribution: the devices that share each batch; the model was created in its scope.
    """

    def __init__(
        self,
        model: Seq2Seq,
        batches: Batches,
        settings: Training,
        source_noise: SourceNoise | None = None,
        distribution: Distribution = SINGLE_DEVICE,
    ) -> None:
        self.model, self.batches, self._source_noise = model, batches, source_noise
        self.step = 0  # steps done
        self.data_seconds = 0.0  # how long the last step waited for its batch
        with distribution.scope():
            self.optimizer = build_optimizer(settings)
            self.optimizer._create_all_weights(model.trainable_variables)  # they must exist before they are restored
        self._learning_rate, self._batch_size = settings.learning_rate, settings.batch_size
        self._sampler = self._make_sampler(start_step=0)
        self._prefetcher = ThreadPoolExecutor(1, "batches")
        self._next_batch: Future[Batch] = Future()
        self._next_step: int | None = None
        self._training_step = TrainingStep(model, self.optimizer, settings, distribution)
        self.sampled = self._training_step.sampled

    @property
    def variables(self) -> list[tf.Variable]:
        """The model's variables and the optimizer's."""
        return [*self.model.trainable_variables, *self.optimizer.variables()]

    @property
    def loss_scale_variables(self) -> list[tf.Variable]:
        """The state of the loss scale; empty unless the precision is float16."""
        return loss_scale_variables(self.optimizer)

    @property
    def traces(self) -> int:
        """Number of graphs traced so far: one for each bucket that was used."""
        return self._training_step.traces

    @property
    def sampler_state(self) -> dict[str, int]:
        """What maps step numbers to samples; part of every checkpoint."""
        return {"batch_size": self._batch_size, "order_begun": self._sampler.start_step}

    def resume_at(self, step: int, sampler_state: Mapping[str, int]) -> bool:
        """Continue at a step of an earlier process; returns whether the order of samples continues as well.

        With a different batch size, step numbers map to different samples, so a new order starts.
        """
        same_order = sampler_state.get("batch_size", self._batch_size) == self._batch_size
        self.step = step
        self._sampler = self._make_sampler(start_step=sampler_state.get("order_begun", 0) if same_order else step)
        return same_order

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the following steps."""
        if rate != self._learning_rate:
            call_with_arrays(self.optimizer.learning_rate.assign, np.float32(rate))
            self._learning_rate = rate

    def train_step(self, stop: bool = False) -> StepResult:
        """Train on the next batch; ``stop`` asks all workers to stop after it."""
        start = time.perf_counter()
        batch = self._next_batch.result() if self._next_step == self.step else self._batch(self.step)
        self.data_seconds = time.perf_counter() - start
        self._next_step = self.step + 1
        self._next_batch = self._prefetcher.submit(self._batch, self._next_step)  # during this step's computation
        result = self._training_step(batch, self.step, stop)
        self.step += 1
        return result

    def _make_sampler(self, start_step: int) -> BatchSampler:
        return BatchSampler(self.batches.sizes, self._batch_size, self.model.seed, start_step)

    def _batch(self, step: int) -> Batch:
        batch = self.batches.batch(*self._sampler.batch(step))
        return self._source_noise(batch, step) if self._source_noise else batch


def build_learner(
    config: Config, codecs: Codecs, corpus: Dataset, distribution: Distribution = SINGLE_DEVICE
) -> Learner:
    """Build the model of an experiment, and the learner that trains it on a corpus."""
    with distribution.scope():
        target_size, source_size = codecs.vocabulary_sizes
        model = build_model(config.model, target_size, config.seed, source_size)
    buckets = configured_buckets(config.data, (config.model.encoder_steps, config.model.decoder_steps), corpus)
    batches = Batches(corpus, buckets, size=config.training.batch_size, reverse=config.data.reverse_input)
    rate = config.training.source_noise
    source_noise = SourceNoise(rate, codecs.source.vocabulary, config.seed) if rate else None
    return Learner(model, batches, config.training, source_noise, distribution)
