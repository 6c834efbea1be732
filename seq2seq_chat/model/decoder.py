"""The decoder: a single step, and all steps of training, statically unrolled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.model.attention import ATTENTIONS, Attention, Memory
from seq2seq_chat.model.cells import CELLS
from seq2seq_chat.model.dropout import dropout
from seq2seq_chat.model.encoder import EncoderOutput, encoder_output_size
from seq2seq_chat.model.randomness import RandomContext
from seq2seq_chat.model.weights import Weight

NextInputs = Callable[[int | tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
"""(t, target word vectors of step t, h̃ of step t - 1) → input vectors of step t, [batch, embedding]."""

Unroll = Callable[[tf.Tensor, EncoderOutput, RandomContext | None, NextInputs | None], tf.Tensor]
"""Runs the decoder in training; see :meth:`Decoder.unroll`."""


class DecoderState(NamedTuple):
    """What the decoder carries from step to step, a row for each hypothesis."""

    cells: tuple[Any, ...]  # state of each layer
    attentional: tf.Tensor  # h̃ of the previous step, for input feeding: [batch, hidden]


class Decoder(tf.Module):
    """Stacked recurrent cells with attention and input feeding.

    ::

        d_t = cell([x_t; h̃_{t-1}])      c_t = attention(d_t)      h̃_t = tanh(W_c [c_t; d_t])

    Without attention there is no input feeding and h̃_t = d_t. Source: Luong et al. 2015.

    As c_t is a weighted sum, its half of W_c is applied to the values before the sum, once for all steps: with
    W_c = [C; D]

    ::

        W_c [c_t; d_t] = Σ_i a_ti (C h_i) + D d_t
    """

    def __init__(self, config: Model, seed: int) -> None:
        super().__init__()
        self.config = config
        hidden_size, value_size = config.hidden_size, encoder_output_size(config)
        self.attention: Attention | None = None
        self.combine_context: Weight | None = None
        self.combine_output: Weight | None = None
        if config.attention != "none":
            self.attention = ATTENTIONS[config.attention]("decoder/attention", hidden_size, value_size, seed)
            fan_in = value_size + hidden_size
            self.combine_context = Weight("decoder/combine/context", value_size, hidden_size, seed, fan_in)
            self.combine_output = Weight("decoder/combine/output", hidden_size, hidden_size, seed, fan_in)
        self.cells = [
            CELLS[config.cell](
                f"decoder/layer{layer}",
                config.embedding_size if layer == 0 else 0,
                hidden_size if layer > 0 or self.attention else 0,
                hidden_size,
                seed,
            )
            for layer in range(config.layers)
        ]

    def start(self, encoded: EncoderOutput) -> tuple[DecoderState, Memory | None]:
        """The state before the first word, and what the decoder attends to."""
        memory = None
        if self.attention is not None and self.combine_context is not None:
            memory = self.attention.setup_memory(encoded.outputs, encoded.lengths)
            memory = memory._replace(values=self.combine_context(memory.values))
        return DecoderState(encoded.states, tf.zeros_like(encoded.states[-1].output)), memory

    def project_inputs(self, vectors: tf.Tensor) -> tf.Tensor:
        """The word vectors' contribution to the first layer's gates. vectors: [..., embedding] → [..., gates]."""
        return self.cells[0].project_inputs(vectors)

    def step_cells(
        self,
        projected: tf.Tensor,
        attentional: tf.Tensor | None,
        states: Sequence[Any],
        random: RandomContext | None = None,
        time: int | tf.Tensor | None = None,
    ) -> tuple[Any, ...]:
        """One step of the cells alone, without attention → the next states of all layers.

        Args:
            projected: inputs from :meth:`project_inputs`, [batch, gates].
            attentional: h̃ of the previous step, [batch, hidden]; None without attention.
            states: of all layers.
            random: for dropout.
            time: index of the step, for dropout.
        """
        first, *upper = self.cells
        new_states = [first(projected, attentional, states[0])]
        for layer, cell in enumerate(upper, start=1):
            below = dropout(new_states[-1].output, random, f"decoder/{layer - 1}", time)
            new_states.append(cell(cell.project_inputs(None), below, states[layer]))
        return tuple(new_states)

    def step(
        self,
        projected: tf.Tensor,
        state: DecoderState,
        memory: Memory | None,
        random: RandomContext | None = None,
        time: int | tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, DecoderState, tf.Tensor | None]:
        """One step. projected: [batch, gates] → h̃: [batch, hidden], next state, attention: [batch, source steps]."""
        attentional = state.attentional if self.attention else None
        states = self.step_cells(projected, attentional, state.cells, random, time)
        output, weights = states[-1].output, None
        if self.attention is not None and self.combine_output is not None and memory is not None:
            context, weights = self.attention(memory, output)
            output = tf.tanh(context + self.combine_output(output))
        return output, DecoderState(states, output), weights

    def unroll(
        self,
        vectors: tf.Tensor,
        encoded: EncoderOutput,
        random: RandomContext | None = None,
        next_inputs: NextInputs | None = None,
    ) -> tf.Tensor:
        """All steps of training.

        Args:
            vectors: of the input words, [target steps, batch, embedding].
            encoded: the source.
            random: for dropout.
            next_inputs: computes the inputs from the second step on; None for teacher forcing with ``vectors``.

        Returns:
            h̃: [target steps, batch, hidden].
        """
        state, memory = self.start(encoded)
        steps = vectors.shape[0]
        if next_inputs is None:  # all inputs are known: one product for all steps
            vectors = self.project_inputs(dropout(vectors, random, "decoder/words"))
        outputs: list[tf.Tensor] = []
        for t, step_inputs in enumerate(tf.unstack(vectors, steps)):
            projected = step_inputs
            if next_inputs is not None:
                chosen = next_inputs(t, step_inputs, outputs[-1]) if outputs else step_inputs
                projected = self.project_inputs(dropout(chosen, random, "decoder/words", t))
            output, state, _ = self.step(projected, state, memory, random, t)
            outputs.append(output)
        return tf.stack(outputs)
