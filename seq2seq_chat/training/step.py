"""One training step, traced once."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import tensorflow as tf

from seq2seq_chat.config import Config, Training
from seq2seq_chat.corpus.encoded import Batch
from seq2seq_chat.model.deferred import DeferredGradients, Gradient
from seq2seq_chat.model.dropout import Dropout
from seq2seq_chat.model.output import softmax_sampler
from seq2seq_chat.model.own_words import OwnWords, Probability, schedule
from seq2seq_chat.model.seq2seq import Loss, Seq2Seq
from seq2seq_chat.training.distribution import ALONE, Distribution
from seq2seq_chat.training.gradients import CLIPPINGS, sum_repeated_rows
from seq2seq_chat.training.parts import batch_parts, loss_in_parts


class StepResult(NamedTuple):
    """What a step reports."""

    loss: Loss  # before the update
    gradient_norm: tf.Tensor  # scalar, before clipping
    stop: tf.Tensor  # scalar: how many devices were asked to stop after this step


class TrainingStep:
    """Loss, gradients, clipping and update as one graph for each bucket.

    Every device of a distribution takes such a step with its share of the batch.
    """

    def __init__(self, model: Seq2Seq, optimizer: Any, config: Config, distribution: Distribution = ALONE) -> None:
        self._model, self._optimizer, self._distribution = model, optimizer, distribution
        self._clip, self._seed, self._rate = config.training.gradient_clipping, config.seed, config.model.dropout
        self._clipped = CLIPPINGS[config.training.gradient_clipping_by]
        self._sampler = softmax_sampler(model.vocabulary_size, config.training.sampled_softmax, config.seed)
        self._own_words = _own_words(config.training)
        self._parts = batch_parts(config)
        self._compute = tf.as_dtype(config.training.precision)
        self._scales_loss = config.training.precision == "float16"
        self._dynamic = config.model.unrolling == "dynamic"
        if self._dynamic:
            from seq2seq_chat.decoding.dynamic import DynamicDecoder  # imports tensorflow-addons

            model.unroll = DynamicDecoder(model).unroll
        self._graph = tf.function(self._trace, autograph=False)

    def __call__(self, batch: Batch, step: int, stop: bool = False) -> StepResult:
        """Learn from a batch. ``step``, counted from 0, is what random draws depend on; ``stop`` is told to all."""
        asked = tf.constant(float(stop))
        result: StepResult = self._graph(*(tf.constant(part) for part in batch), tf.constant(step, tf.int64), asked)
        return result

    @property
    def sampled(self) -> bool:
        """Whether the loss is the estimate of a sampled softmax."""
        return self._sampler is not None

    @property
    def traces(self) -> int:
        """How many graphs were built; more than one for each bucket is a fault."""
        return int(self._graph.experimental_get_tracing_count())

    def _trace(self, *inputs: tf.Tensor) -> StepResult:
        *batch, step, stop = inputs
        return self._distribution.run(self._learn, Batch(*batch), step, stop)

    def _learn(self, batch: Batch, step: tf.Tensor, stop: tf.Tensor) -> StepResult:
        loss, gradients, _ = self.gradients(batch, step)
        if self._distribution.devices > 1:
            gradients = [sum_repeated_rows(gradient) for gradient in gradients]  # fewer to be sent
        nats, stop, *gradients = self._distribution.sum([loss.nats, stop, *gradients])
        gradients, norm = self._clipped(gradients, self._clip)
        pairs = zip(gradients, self._model.trainable_variables, strict=True)
        self._optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)
        if self._scales_loss:  # an overflow is no fault here: the optimizer leaves such a step out
            norm = tf.where(tf.math.is_finite(norm), norm, 0.0)
        return StepResult(Loss(nats, loss.tokens), norm, stop)

    def _tape(self) -> Any:
        """What records the forward pass; inside a dynamic loop only automatic differentiation can."""
        return tf.GradientTape() if self._dynamic else DeferredGradients(self._compute)

    def gradients(self, batch: Batch, step: tf.Tensor) -> tuple[Loss, list[Gradient], Any]:
        """The loss of a batch, the gradients of its mean per token for all variables, and the tape they came from.

        On one of several devices: what its share of the batch adds to them; the tokens are those of the whole batch.
        """
        dropout = Dropout(self._rate, self._seed, step) if self._rate else None
        own = OwnWords(self._own_words, self._seed, step) if self._own_words else None
        with self._tape() as tape:
            share = self._distribution.share()
            loss = loss_in_parts(self._model, batch, self._parts, dropout, own, share, sampler=self._sampler, step=step)
            if self._distribution.devices > 1:
                loss = loss._replace(tokens=tf.cast(tf.reduce_sum(batch.target_length), tf.float32))
            objective = loss.nats / loss.tokens
            if self._scales_loss:
                objective = self._optimizer.get_scaled_loss(objective)
        gradients = tape.gradient(objective, self._model.trainable_variables)
        if self._scales_loss:
            gradients = self._optimizer.get_unscaled_gradients(gradients)
        return loss, gradients, tape


def _own_words(config: Training) -> Optional[Probability]:
    if config.scheduled_sampling == "none":
        return None
    return schedule(config.scheduled_sampling, config.own_words, float(config.own_words_steps))
