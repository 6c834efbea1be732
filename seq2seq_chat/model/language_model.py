"""A language model: the decoder alone, trained by truncated backpropagation through time."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from seq2seq_chat.config import Model, Truncation
from seq2seq_chat.data.running_text import TextBatch
from seq2seq_chat.model.cells import masked_update
from seq2seq_chat.model.decoder import Decoder
from seq2seq_chat.model.output import Embedding, Output, SampledWords
from seq2seq_chat.model.randomness import RandomContext, dropout
from seq2seq_chat.model.seq2seq import Loss

States = tuple[Any, ...]
"""The state of each layer, [rows, hidden] each."""


class LanguageModel(tf.Module):
    """A decoder without an encoder: p(token | all tokens before it).

    Args:
        vocabulary_size: number of tokens.
        seed: initial values are a function of it and of the variables' names.
    """

    def __init__(self, config: Model, vocabulary_size: int, seed: int) -> None:
        super().__init__()
        self.config, self.vocabulary_size, self.seed = config, vocabulary_size, seed
        size = config.embedding_size
        self.target_embedding = Embedding("embedding/target", vocabulary_size, size, seed, config.tie_embeddings)
        self.decoder = Decoder(config, seed)
        self.output = Output(config, vocabulary_size, seed, self.target_embedding)

    def start(self, rows: int | tf.Tensor) -> States:
        """The state before the first token."""
        return tuple(cell.zero_state(rows) for cell in self.decoder.cells)

    def step(self, tokens: tf.Tensor, states: States) -> tuple[tf.Tensor, States]:
        """Read a token: ids [rows] → the logits of the next one, [rows, vocabulary], and the next state."""
        inputs = self.decoder.project_inputs(self.target_embedding(tokens))
        states = self.decoder.step_cells(inputs.cell, None, states)
        return self.output.step_logits(
            self.decoder.combine(self.decoder.top_output(states), None, inputs.maxout)
        ), states

    def loss(
        self,
        batch: TextBatch,
        states: States,
        truncation: Truncation,
        random: RandomContext | None = None,
        sampled_words: SampledWords | None = None,
        label_smoothing: float = 0.0,
    ) -> tuple[Loss, States]:
        """The cross-entropy of an update, and the state that the next one starts from.

        Args:
            batch: ``truncation.steps`` tokens of some streams.
            states: before the first of them.
            truncation: which tokens count, and where gradients end.
            random: for dropout; None for none.
            sampled_words: estimate the loss from these words (sampled softmax); None for the exact loss.
            label_smoothing: share of the probability that belongs to all words alike, without sampled words.
        """
        vectors = dropout(self.target_embedding(tf.transpose(batch.inputs)), random, "decoder/words")
        inputs = self.decoder.project_inputs(vectors)
        outputs, carried = [], states
        for t, projected in enumerate(tf.unstack(inputs.cell, truncation.steps)):
            if 0 < t == truncation.first_gradient:
                states = tf.nest.map_structure(tf.stop_gradient, states)
            new = self.decoder.step_cells(projected, None, states, random, t)
            if t < truncation.skippable:
                new = tuple(masked_update(t >= batch.start, *layer) for layer in zip(new, states, strict=True))
            states = new
            outputs.append(self.decoder.top_output(states))
            if t + 1 == truncation.forward:
                carried = tf.nest.map_structure(tf.stop_gradient, states)
        first = truncation.first_loss
        hidden = dropout(self.decoder.combine(tf.stack(outputs[first:]), None, inputs.maxout[first:]), random, "output")
        hidden, targets = hidden[: batch.end - first], tf.transpose(batch.targets)[first : batch.end]
        hidden, targets = tf.reshape(hidden, [-1, hidden.shape[-1]]), tf.reshape(targets, [-1])
        return Loss.of_tokens(self.output.loss(hidden, targets, sampled_words, smoothing=label_smoothing)), carried

    def read(self, inputs: tf.Tensor, states: States) -> tuple[tf.Tensor, States]:
        """Read any number of tokens, without dropout and gradients.

        Args:
            inputs: ids [rows, steps].
            states: before the first of them.

        Returns:
            h̃ of each step, [steps, rows, units], and the state after the last one.
        """
        projected = self.decoder.project_inputs(self.target_embedding(tf.transpose(inputs)))
        steps = tf.shape(inputs)[1]
        outputs = tf.TensorArray(tf.float32, steps, element_shape=[None, self.config.hidden_size])

        def step(t: tf.Tensor, states: States, outputs: tf.TensorArray) -> tuple[tf.Tensor, States, tf.TensorArray]:
            states = self.decoder.step_cells(projected.cell[t], None, states)
            return t + 1, states, outputs.write(t, self.decoder.top_output(states))

        _, states, outputs = tf.while_loop(lambda t, *_: t < steps, step, (tf.constant(0), states, outputs))
        return self.decoder.combine(outputs.stack(), None, projected.maxout), states
