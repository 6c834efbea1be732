"""A model that learns step by step, and the batches of its steps."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Config, Training
from seq2seq_chat.data.batches import Batches, SourceNoise, configured_buckets
from seq2seq_chat.data.dataset import Batch, Dataset
from seq2seq_chat.data.running_text import Streams
from seq2seq_chat.engines.addons import build_model
from seq2seq_chat.model.execution import call_with_arrays
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.training.distribution import SINGLE_DEVICE, Distribution
from seq2seq_chat.training.optimizers import build_optimizer, loss_scale_variables
from seq2seq_chat.training.step import StepResult, TaskLoss, TrainingStep

STEPS_AT_ONCE = 64  # whose batches are computed together, because a call of TensorFlow takes longer than one batch
ROUNDS, FIRST_KEY = 4, 498247692  # of tf.random.experimental.index_shuffle, which accepts only one seed

BucketPositions = tuple[int, np.ndarray]
"""The bucket of a step, counted from 0, and the positions of its samples there: int64 [≤ batch size]."""


class BatchSampler:
    """Shuffles the samples so that every epoch sees each of them once, in a different order.

    All samples of a batch come from one bucket. Batches of all buckets are shuffled together; the last batch of a
    bucket may be smaller. Both shuffles are stateless shuffles of indices, so a position in the data is just a step
    number, and needs no memory however large the corpus is.

    Args:
        sizes: number of samples in each bucket.
        batch_size: maximum number of samples in a batch.
        start_step: the step at which this order starts.

    Raises:
        ValueError: all buckets are empty.
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, seed: int, start_step: int = 0) -> None:
        self.start_step = start_step
        self._sizes, self._batch_size, self._seed = np.array(sizes), batch_size, seed
        batches = -(-self._sizes // batch_size)
        self._ends = np.cumsum(batches)
        self._starts = self._ends - batches
        self.steps_per_epoch = int(self._ends[-1])
        if not self.steps_per_epoch:
            raise ValueError("there are no samples to shuffle")
        self._computed: tuple[int, list[BucketPositions]] = (0, [])  # first of some consecutive steps, their batches

    def batch(self, step: int) -> BucketPositions:
        """The bucket and the positions of a step."""
        first, batches = self._computed
        if not first <= step < first + len(batches):
            first, batches = self._computed = step, self._batches(step)
        return batches[step - first]

    def _batches(self, first_step: int) -> list[BucketPositions]:
        """The batches of ``STEPS_AT_ONCE`` steps."""
        steps = np.arange(first_step, first_step + STEPS_AT_ONCE) - self.start_step
        epochs, positions = np.divmod(steps, self.steps_per_epoch)
        numbers = _shuffle(positions, np.full(len(steps), self.steps_per_epoch), self._seed, 2 * epochs)
        buckets = np.searchsorted(self._ends, numbers, side="right")
        first = (numbers - self._starts[buckets]) * self._batch_size
        counts = np.minimum(self._sizes[buckets] - first, self._batch_size)
        ends = np.cumsum(counts)
        positions = np.arange(ends[-1]) + np.repeat(first - ends + counts, counts)
        sizes, shuffles = np.repeat(self._sizes[buckets], counts), np.repeat(2 * epochs + 1, counts)
        positions = _shuffle(positions, sizes, self._seed, shuffles)
        return list(zip(buckets.tolist(), np.split(positions, ends[:-1]), strict=True))


class ShuffledBatches:
    """The batches of training steps: samples in random order.

    Args:
        batch_size: maximum number of samples in a batch.
    """

    def __init__(self, batches: Batches, batch_size: int, seed: int, source_noise: SourceNoise | None = None) -> None:
        self._batches, self._batch_size, self._seed, self._source_noise = batches, batch_size, seed, source_noise
        self.buckets = batches.buckets  # step limits, the model's last
        self._sampler = self._make_sampler(start_step=0)

    @property
    def state(self) -> dict[str, int]:
        """What maps step numbers to samples; part of every checkpoint."""
        return {"batch_size": self._batch_size, "order_begun": self._sampler.start_step}

    def resume_at(self, step: int, state: Mapping[str, int]) -> bool:
        """Continue at a step of an earlier process; returns whether the order of samples continues as well.

        With a different batch size, step numbers map to different samples, so a new order starts.
        """
        same_order = state.get("batch_size", self._batch_size) == self._batch_size
        self._sampler = self._make_sampler(start_step=state.get("order_begun", 0) if same_order else step)
        return same_order

    def batch(self, step: int) -> Batch:
        """The batch of a training step."""
        batch = self._batches.batch(*self._sampler.batch(step))
        return self._source_noise(batch, step) if self._source_noise else batch

    def _make_sampler(self, start_step: int) -> BatchSampler:
        return BatchSampler(self._batches.sizes, self._batch_size, self._seed, start_step)


def training_batches(config: Config, codecs: Codecs, corpus: Dataset) -> ShuffledBatches:
    """The batches that an experiment trains on."""
    size, rate = config.training.batch_size, config.training.source_noise
    buckets = configured_buckets(config.data, (config.model.encoder_steps, config.model.decoder_steps), corpus)
    batches = Batches(corpus, buckets, size=size, reverse=config.data.reverse_input)
    source_noise = SourceNoise(rate, codecs.source.vocabulary, config.seed) if rate else None
    return ShuffledBatches(batches, size, config.seed, source_noise)


def _shuffle(positions: np.ndarray, sizes: np.ndarray, seed: int, shuffles: np.ndarray) -> np.ndarray:
    """Where the shuffle (seed, shuffle) of ``range(size)`` moves each position: all int64 [n]."""
    seeds = np.stack([np.full_like(shuffles, FIRST_KEY), np.full_like(shuffles, seed), shuffles], axis=1)
    with tf.device("CPU"):
        shuffled: np.ndarray = call_with_arrays(_index_shuffle, positions, seeds, sizes - 1).numpy()
    return shuffled


def _index_shuffle(index: tf.Tensor, seed: tf.Tensor, max_index: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.RandomIndexShuffle(index=index, seed=seed, max_index=max_index, rounds=ROUNDS)


LOOKAHEAD = 64  # steps; graphs that are first needed later are built when they are needed


class GraphBuilder:
    """While training starts with the graph of the first batch, builds those that the next batches need.

    Args:
        training_step: has the graphs.
        batch: returns the batch of a step; may be called in another thread.
    """

    def __init__(self, training_step: TrainingStep, batch: Callable[[int], Sequence[Any]]) -> None:
        self._training_step, self._batch = training_step, batch
        self._thread: threading.Thread | None = None
        self._stop_request = threading.Event()

    def start(self, steps: Iterable[int]) -> None:
        """Build the graphs of these steps in the order in which they are needed. Only the first call has an effect."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._build, args=[steps], name="graphs")
            self._thread.start()

    def stop(self) -> None:
        """Build no more graphs, and wait for the one that is being built."""
        self._stop_request.set()
        if self._thread is not None:
            self._thread.join()

    def _build(self, steps: Iterable[int]) -> None:
        with contextlib.suppress(Exception):  # raised again when the batch is needed
            for step in steps:
                if self._stop_request.is_set():
                    return
                self._training_step.build(self._batch(step))


Model = TypeVar("Model", Seq2Seq, LanguageModel)
BatchSource: TypeAlias = "ShuffledBatches | Streams"


class Learner(Generic[Model]):
    """A model, its optimizer and the order of its batches.

    All state is in ``variables``, ``loss_scale_variables``, ``step`` and ``batches.state``.

    Args:
        model: the model to train; its seed is the experiment's.
        distribution: the devices that share each batch; the model was created in its scope.
        task_loss: the loss of the task; None for samples.
        carried: state that the loss carries from step to step.
    """

    def __init__(
        self,
        model: Model,
        batches: BatchSource,
        settings: Training,
        distribution: Distribution = SINGLE_DEVICE,
        task_loss: TaskLoss | None = None,
        carried: Sequence[tf.Variable] = (),
    ) -> None:
        self.model: Model = model
        self.batches = batches
        self.step = 0  # steps done
        self.data_seconds = 0.0  # how long the last step waited for its batch
        with distribution.scope():
            self.optimizer = build_optimizer(settings)
            self.optimizer._create_all_weights(model.trainable_variables)  # they must exist before they are restored
        self._learning_rate, self._carried = settings.learning_rate, carried
        self._prefetcher = ThreadPoolExecutor(1, "batches")
        self._next_batch: Future[Sequence[Any]] = Future()
        self._next_step: int | None = None
        self._training_step = TrainingStep(model, self.optimizer, settings, distribution, task_loss)
        self._last_step, self._graph_builder = settings.steps, None
        if distribution.devices == 1:  # workers must trace in the order of the steps
            self._graph_builder = GraphBuilder(self._training_step, lambda step: self._prefetch(step).result())
        self.sampled = self._training_step.sampled

    @property
    def variables(self) -> list[tf.Variable]:
        """The model's variables, the optimizer's, and the carried state."""
        return [*self.model.trainable_variables, *self.optimizer.variables(), *self._carried]

    @property
    def loss_scale_variables(self) -> list[tf.Variable]:
        """The state of the loss scale; empty unless the precision is float16."""
        return loss_scale_variables(self.optimizer)

    @property
    def traces(self) -> int:
        """Number of graphs traced so far: one for each bucket that was used."""
        return self._training_step.traces

    def resume_at(self, step: int, sampler_state: Mapping[str, int]) -> bool:
        """Continue at a step of an earlier process; returns whether the order of samples continues as well."""
        self.step = step
        return self.batches.resume_at(step, sampler_state)

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the following steps."""
        if rate != self._learning_rate:
            call_with_arrays(self.optimizer.learning_rate.assign, np.float32(rate))
            self._learning_rate = rate

    def train_step(self, stop: bool = False) -> StepResult:
        """Train on the next batch; ``stop`` asks all workers to stop after it."""
        start = time.perf_counter()
        batch = self._next_batch.result() if self._next_step == self.step else self.batches.batch(self.step)
        self.data_seconds = time.perf_counter() - start
        self._next_step = self.step + 1
        self._next_batch = self._prefetch(self._next_step)  # while this step computes
        result = self._training_step(batch, self.step, stop)
        self.step += 1
        if self._graph_builder is not None:
            self._graph_builder.start(range(self.step, min(self.step + LOOKAHEAD, self._last_step)))
        return result

    def close(self) -> None:
        """Stop what runs in threads."""
        if self._graph_builder is not None:
            self._graph_builder.stop()

    def _prefetch(self, step: int) -> Future[Sequence[Any]]:
        return self._prefetcher.submit(self.batches.batch, step)


def build_learner(
    config: Config, codecs: Codecs, batches: BatchSource, distribution: Distribution = SINGLE_DEVICE
) -> Learner[Seq2Seq]:
    """Build the model of an experiment, and the learner that trains it."""
    with distribution.scope():
        target_size, source_size = codecs.vocabulary_sizes
        model = build_model(config.model, target_size, config.seed, source_size)
    return Learner(model, batches, config.training, distribution)
