"""The loss of a task, which a training step computes micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.data.dataset import Batch
from seq2seq_chat.model.micro_batches import MicroBatch, Share, micro_batch_count, split_batch
from seq2seq_chat.model.output import SampledWords
from seq2seq_chat.model.randomness import RandomContext
from seq2seq_chat.model.seq2seq import Loss, Seq2Seq

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
        self._model = model
        self.micro_batches = micro_batch_count(model.config, settings)

    def tokens(self, batch: Tensors) -> tf.Tensor:
        return tf.cast(tf.reduce_sum(Batch(*batch).target_length), tf.float32)

    def split(self, batch: Tensors, share: Share, random: RandomContext) -> list[tuple[MicroBatch, Tensors]]:
        return [*split_batch(Batch(*batch), self.micro_batches, share)]

    def loss(
        self, tensors: Tensors, random: RandomContext, sampled_words: SampledWords | None
    ) -> tuple[Loss, list[tf.Tensor]]:
        return self._model.loss(*tensors, random=random, sampled_words=sampled_words), []

    def carry(self, states: Sequence[list[tf.Tensor]]) -> None:
        """Samples carry no state."""
