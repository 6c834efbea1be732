"""One training step as a graph, traced once for each bucket."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.data.dataset import Batch
from seq2seq_chat.model.deferred import DeferredGradients, Gradient
from seq2seq_chat.model.execution import (
    MicroBatch,
    Share,
    call_with_arrays,
    micro_batch_count,
    split_batch,
    without_optimizer,
)
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.output import SampledWords, softmax_sampler
from seq2seq_chat.model.randomness import RandomContext, RowSlice, sampling_probability
from seq2seq_chat.model.seq2seq import Loss, Seq2Seq
from seq2seq_chat.training.distribution import SINGLE_DEVICE, Distribution
from seq2seq_chat.training.optimizers import clip, sum_gradients, sum_repeated_rows

Shapes = tuple[tuple[int, ...], ...]
"""The shapes of the arrays of a batch."""


class StepResult(NamedTuple):
    """The result of a training step."""

    loss: Loss  # before the update
    gradient_norm: tf.Tensor  # scalar, before clipping
    stop: tf.Tensor  # scalar: number of devices that request to stop after this step


class TrainingStep:
    """Loss, gradients, clipping and update as one graph for each bucket.

    Args:
        task_loss: None for samples.
    """

    def __init__(
        self,
        model: Seq2Seq | LanguageModel,
        optimizer: Any,
        settings: Training,
        distribution: Distribution = SINGLE_DEVICE,
        task_loss: TaskLoss | None = None,
    ) -> None:
        self._model, self._optimizer, self._settings, self._distribution = model, optimizer, settings, distribution
        self._task_loss = task_loss or SampleLoss(cast(Seq2Seq, model), settings)
        self._sampler = softmax_sampler(settings, model.vocabulary_size, model.seed, model.config.decoder_steps)
        self.sampled: bool = self._sampler is not None  # whether the loss is the estimate of a sampled softmax
        self._compute_dtype = tf.as_dtype(settings.precision)
        self._scales_loss = settings.precision == "float16"
        self._dynamic = model.config.unrolling == "dynamic"
        # products of unrolled graphs are arranged for the CPU; loops and GPUs profit from the optimizer
        self._optimizes_graph = self._dynamic or bool(tf.config.list_physical_devices("GPU"))
        self._graphs: dict[Shapes, Any] = {}
        self._used: set[Shapes] = set()
        self._building = threading.Lock()

    def __call__(self, batch: Sequence[Any], step: int, stop: bool = False) -> StepResult:
        """Train on a batch. ``step`` (from 0) seeds the random numbers; ``stop`` is sent to all workers."""
        graph = self.build(batch)
        self._used.add(_shapes(batch))
        with self._graph_options():
            result: StepResult = call_with_arrays(graph, *batch, np.int64(step), np.float32(stop))
        return result

    def build(self, batch: Sequence[Any]) -> Any:
        """The graph for batches of these shapes, traced if there is none yet; may be called in any thread."""
        shapes = _shapes(batch)
        if shapes not in self._graphs:
            with self._building:
                if shapes not in self._graphs:
                    self._graphs[shapes] = self._trace(batch)
        return self._graphs[shapes]

    def _trace(self, batch: Sequence[Any]) -> Any:
        specs = [tf.TensorSpec(np.shape(array), tf.as_dtype(array.dtype)) for array in batch]
        scalars = tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.float32)
        with self._graph_options():
            return tf.function(self._distributed_step, autograph=False).get_concrete_function(*specs, *scalars)

    def _graph_options(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._optimizes_graph else without_optimizer()

    @property
    def traces(self) -> int:
        """Number of graphs that batches were computed with so far: at most one for each bucket."""
        return len(self._used)

    def _distributed_step(self, *inputs: tf.Tensor) -> StepResult:
        *batch, step, stop = inputs
        return self._distribution.run(self._replica_step, batch, step, stop)

    def _replica_step(self, batch: Sequence[tf.Tensor], step: tf.Tensor, stop: tf.Tensor) -> StepResult:
        loss, gradients = self.gradients(batch, step)
        if self._distribution.devices > 1:
            gradients = [sum_repeated_rows(gradient) for gradient in gradients]  # fewer rows to send
        nats, stop, *gradients = self._distribution.all_reduce([loss.nats, stop, *gradients])
        gradients, norm = clip(gradients, self._settings.gradient_clipping, self._settings.gradient_clipping_by)
        gradients_and_variables = zip(gradients, self._model.trainable_variables, strict=True)
        self._optimizer.apply_gradients(gradients_and_variables, experimental_aggregate_gradients=False)
        if self._scales_loss:  # after an overflow the optimizer skips the step
            norm = tf.where(tf.math.is_finite(norm), norm, 0.0)
        return StepResult(Loss(nats, loss.tokens), norm, stop)

    def _random_context(self, step: tf.Tensor) -> RandomContext:
        probability = sampling_probability(self._settings, step)
        rate, micro_batches = self._model.config.dropout, self._task_loss.micro_batches
        return RandomContext(self._model.seed, step, rate, probability, micro_batches=micro_batches)

    def _tape(self) -> Any:
        """The tape for the forward pass; the loop of the dynamic decoder needs TensorFlow's own."""
        return tf.GradientTape() if self._dynamic else DeferredGradients(self._compute_dtype)

    def gradients(self, batch: Sequence[tf.Tensor], step: tf.Tensor) -> tuple[Loss, list[Gradient]]:
        """Compute the loss of a batch, and the gradients of its mean per token.

        On one of several devices, loss and gradients belong to its share; the number of tokens to the entire batch.
        """
        task_loss, tokens = self._task_loss, self._task_loss.tokens(batch)
        sampled_words = self._sampler(step) if self._sampler else None
        micro_batches = task_loss.split(batch, self._distribution.share(), self._random_context(step))
        compute = self._micro_batch_gradients
        if len(micro_batches) > 1:  # traced once, not for each of them
            compute = tf.function(compute, autograph=False)
        nats, gradients, states = zip(
            *(
                compute(tensors, tf.constant(micro_batch.number), micro_batch.rows, step, tokens, sampled_words)
                for micro_batch, tensors in micro_batches
            ),
            strict=True,
        )
        task_loss.carry(states)
        sums = [sum_gradients(parts) for parts in zip(*gradients, strict=True)]
        if self._scales_loss:
            sums = self._optimizer.get_unscaled_gradients(sums)
        return Loss(tf.add_n(nats), tokens), sums

    def _micro_batch_gradients(
        self,
        tensors: Sequence[tf.Tensor],
        number: tf.Tensor,
        rows: RowSlice | None,
        step: tf.Tensor,
        tokens: tf.Tensor,
        sampled_words: SampledWords | None,
    ) -> tuple[tf.Tensor, list[Gradient], list[tf.Tensor]]:
        """The loss of a micro-batch, in nats, its share of the batch's gradients, and the state that it carries."""
        random = self._random_context(step)._replace(micro_batch=number, rows=rows)
        with self._tape() as tape:
            loss, states = self._task_loss.loss(tensors, random, sampled_words)
            objective = loss.nats / tokens
            if self._scales_loss:
                objective = self._optimizer.get_scaled_loss(objective)
        return loss.nats, tape.gradient(objective, self._model.trainable_variables), states


def _shapes(batch: Sequence[Any]) -> Shapes:
    return tuple(tuple(array.shape) for array in batch)


Tensors = Sequence[tf.Tensor]


class TaskLoss(Protocol):
    """Divides batches of tensors into micro-batches, and computes their loss.

    Attributes:
        micro_batches: number of micro-batches per batch.
    """

    micro_batches: int

    def tokens(self, batch: Tensors) -> tf.Tensor:
        """Target tokens of the entire batch: scalar, float."""

    def split(self, batch: Tensors, share: Share, random: RandomContext) -> list[tuple[MicroBatch, Tensors]]:
        """The micro-batches of a device's share of a batch, with what :meth:`loss` needs of each."""

    def loss(
        self, tensors: Tensors, random: RandomContext, sampled_words: SampledWords | None
    ) -> tuple[Loss, list[tf.Tensor]]:
        """The loss of a micro-batch, in nats, and the state that its rows carry to the next step."""

    def carry(self, states: Sequence[list[tf.Tensor]]) -> None:
        """Keep the states of all micro-batches for the next step."""


class SampleLoss:
    """The loss of samples, each with a source and a target; the batch is a :class:`Batch`. See :class:`TaskLoss`."""

    def __init__(self, model: Seq2Seq, settings: Training) -> None:
        self._model, self._smoothing = model, settings.label_smoothing
        self.micro_batches = micro_batch_count(model.config, settings)

    def tokens(self, batch: Tensors) -> tf.Tensor:
        return tf.cast(tf.reduce_sum(Batch(*batch).target_length), tf.float32)

    def split(self, batch: Tensors, share: Share, random: RandomContext) -> list[tuple[MicroBatch, Tensors]]:
        return split_batch(batch, self.micro_batches, share)

    def loss(
        self, tensors: Tensors, random: RandomContext, sampled_words: SampledWords | None
    ) -> tuple[Loss, list[tf.Tensor]]:
        loss = self._model.loss(*tensors, random=random, sampled_words=sampled_words, label_smoothing=self._smoothing)
        return loss, []

    def carry(self, states: Sequence[list[tf.Tensor]]) -> None:
        """Samples carry no state."""
