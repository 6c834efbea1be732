"""The loss of a language model in training, whose state is carried from step to step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.data.streams import TextBatch
from seq2seq_chat.model.language_model import LanguageModel, States
from seq2seq_chat.model.micro_batches import MicroBatch, Share, divide_rows, micro_batch_count
from seq2seq_chat.model.output import SampledWords
from seq2seq_chat.model.randomness import RandomContext
from seq2seq_chat.model.seq2seq import Loss
from seq2seq_chat.training.task_loss import Tensors


class TextLoss:
    """The loss of streams, whose state is carried from batch to batch; the batch is a :class:`TextBatch`.

    See :class:`seq2seq_chat.training.task_loss.TaskLoss`.

    Args:
        model: the model to train.
        settings: number of streams, truncation, micro-batches.

    Attributes:
        variables: the carried state, [streams, hidden] each; part of every checkpoint.
    """

    def __init__(self, model: LanguageModel, settings: Training) -> None:
        self._model, self._truncation, self._state_reset = model, settings.truncation, settings.state_reset
        self.micro_batches = micro_batch_count(model.config, settings)
        layers = enumerate(model.decoder.cells)
        names = [f"state/layer{layer}/{field}" for layer, cell in layers for field in cell.STATE._fields]
        self._zero = model.start(settings.batch_size)
        values = zip(names, tf.nest.flatten(self._zero), strict=True)
        self.variables = [tf.Variable(value, trainable=False, name=name) for name, value in values]

    def tokens(self, batch: Tensors) -> tf.Tensor:
        inputs, end = TextBatch(*batch).inputs, TextBatch(*batch).end
        return tf.cast(inputs.shape[0] * (end - self._truncation.first_loss), tf.float32)

    def split(self, batch: Tensors, share: Share, random: RandomContext) -> list[tuple[MicroBatch, Tensors]]:
        """The text of the streams of each micro-batch, followed by their states."""
        inputs, targets, start, end, is_first = TextBatch(*batch)
        forgets = is_first | self._resets(random)
        carried = [tf.where(forgets, 0.0, variable) for variable in self.variables]
        micro_batches = list(divide_rows(inputs.shape[0], self.micro_batches, share))
        sizes = [micro_batch.size for micro_batch in micro_batches]
        rows = zip(*(tf.split(tensor, sizes) for tensor in (inputs, targets, *carried)), strict=True)
        return [
            (micro_batch, [inputs, targets, start, end, *states])
            for micro_batch, (inputs, targets, *states) in zip(micro_batches, rows, strict=True)
        ]

    def loss(
        self, tensors: Tensors, random: RandomContext, sampled_words: SampledWords | None
    ) -> tuple[Loss, list[tf.Tensor]]:
        inputs, targets, start, end, *carried = tensors
        states: States = tf.nest.pack_sequence_as(self._zero, carried)
        batch = TextBatch(inputs, targets, start, end, is_first=np.bool_(False))
        loss, states = self._model.loss(batch, states, self._truncation, random, sampled_words)
        return loss, tf.nest.flatten(states)

    def carry(self, states: Sequence[list[tf.Tensor]]) -> None:
        for variable, parts in zip(self.variables, zip(*states, strict=True), strict=True):
            variable.assign(tf.concat(parts, axis=0))

    def _resets(self, random: RandomContext) -> tf.Tensor:
        """Which streams forget their state, bool [streams, 1]."""
        rows = [self.variables[0].shape[0], 1]
        if not self._state_reset:
            return tf.zeros(rows, tf.bool)
        return tf.random.stateless_uniform(rows, random.stateless_seed("state_reset")) < self._state_reset
