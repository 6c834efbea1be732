"""The loss of a language model in training, whose state is carried from step to step."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.data.streams import TextBatch
from seq2seq_chat.model.language_model import LanguageModel, States, Truncation
from seq2seq_chat.model.micro_batches import Share, divide_rows, micro_batch_count
from seq2seq_chat.model.output import SampledWords
from seq2seq_chat.model.randomness import RandomContext
from seq2seq_chat.model.seq2seq import Loss


def truncation(settings: Training) -> Truncation:
    """The truncation that the settings describe."""
    return Truncation(settings.bptt_forward, settings.bptt_backward or settings.bptt_forward)


class TextLoss:
    """The loss of a batch of streams, a :class:`TextBatch`. It updates the state that the next batch starts from.

    Args:
        model: the model to train.
        settings: number of streams, truncation, micro-batches.

    Attributes:
        variables: the carried state, [streams, hidden] each; part of every checkpoint.
    """

    def __init__(self, model: LanguageModel, settings: Training) -> None:
        self._model, self._truncation = model, truncation(settings)
        self._micro_batches, self._state_reset = micro_batch_count(model.config, settings), settings.state_reset
        layers = enumerate(model.decoder.cells)
        names = [f"state/layer{layer}/{field}" for layer, cell in layers for field in cell.STATE._fields]
        self._zero = model.start(settings.batch_size)
        values = zip(names, tf.nest.flatten(self._zero), strict=True)
        self.variables = [tf.Variable(value, trainable=False, name=name) for name, value in values]

    def __call__(
        self, arrays: Sequence[tf.Tensor], share: Share, random: RandomContext, sampled_words: SampledWords | None
    ) -> Loss:
        """See :data:`seq2seq_chat.training.step.BatchLoss`."""
        batch = TextBatch(*arrays)
        forgets = batch.is_first | self._resets(random)
        carried = [tf.where(forgets, 0.0, variable) for variable in self.variables]
        losses, first, next_states = [], 0, []
        for part in divide_rows(batch.inputs.shape[0], self._micro_batches):
            rows = slice(first, first + part.size)
            first += part.size
            states: States = tf.nest.pack_sequence_as(self._zero, [state[rows] for state in carried])
            loss, states = self._model.loss(
                batch._replace(inputs=batch.inputs[rows], targets=batch.targets[rows]),
                states,
                self._truncation,
                random._replace(micro_batch=part.number),
                sampled_words,
            )
            losses.append(loss)
            next_states.append(tf.nest.flatten(states))
        for variable, parts in zip(self.variables, zip(*next_states, strict=True), strict=True):
            variable.assign(tf.concat(parts, axis=0))
        return Loss.total(losses)

    def _resets(self, random: RandomContext) -> tf.Tensor:
        """Which streams forget their state, bool [streams, 1]."""
        rows = [self.variables[0].shape[0], 1]
        if not self._state_reset:
            return tf.zeros(rows, tf.bool)
        return tf.random.stateless_uniform(rows, random.stateless_seed("state_reset")) < self._state_reset
