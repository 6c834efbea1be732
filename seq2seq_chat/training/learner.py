"""A model that learns step by step."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Config, Training
from seq2seq_chat.engines.addons import build_model
from seq2seq_chat.model.execution import call_with_arrays
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.training.distribution import SINGLE_DEVICE, Distribution
from seq2seq_chat.training.optimizers import build_optimizer, loss_scale_variables
from seq2seq_chat.training.step import StepResult, TaskLoss, TrainingStep

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


class BatchSource(Protocol):
    """The batches of training steps."""

    @property
    def state(self) -> dict[str, int]:
        """What maps step numbers to batches; part of every checkpoint."""

    def resume_at(self, step: int, state: Mapping[str, int]) -> bool:
        """Continue at a step of an earlier process; returns whether the order of samples continues as well."""

    def batch(self, step: int) -> Sequence[Any]:
        """The batch of a training step."""


class Learner(Generic[Model]):
    """A model, its optimizer and the order of its batches.

    All state is in ``variables``, ``loss_scale_variables``, ``step`` and ``sampler_state``.

    Args:
        model: the model to train; its seed is that of the experiment.
        batches: of the training corpus.
        settings: optimizer, loss.
        distribution: the devices that share each batch; the model was created in its scope.
        task_loss: of the task; None: that of samples.
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

    @property
    def sampler_state(self) -> dict[str, int]:
        """What maps step numbers to batches; part of every checkpoint."""
        return self.batches.state

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
