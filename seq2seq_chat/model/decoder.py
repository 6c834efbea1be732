"""The decoder: a single step, and all steps of training, statically unrolled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from seq2seq_chat.architecture.variables import (
    context_size,
    decoder_output_size,
    encoder_output_size,
    feeds_output,
    queries_previous,
    step_input_size,
)
from seq2seq_chat.config import Model
from seq2seq_chat.model.attention import ATTENTIONS, Attention, Memory
from seq2seq_chat.model.cells import CELLS, make_cell
from seq2seq_chat.model.encoder import EncoderOutput
from seq2seq_chat.model.randomness import RandomContext, dropout
from seq2seq_chat.model.step_copies import copied
from seq2seq_chat.model.variables import Weight

NextInputs = Callable[[int | tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
"""(t, target word vectors of step t, h̃ of step t - 1) → input vectors of step t, [batch, embedding]."""

Unroll = Callable[[tf.Tensor, EncoderOutput, RandomContext | None, NextInputs | None], tf.Tensor]
"""Runs the decoder in training; see :meth:`Decoder.unroll`."""

Absent: TypeAlias = tuple[()]
"""In place of tensors that an architecture does not have; unlike None it has no part in nested tensors."""


class StepInputs(NamedTuple):
    """What is known of a step before the loop: products of its input word, or of the thought vector."""

    cell: tf.Tensor  # with the first layer's input weights: [..., gates]
    maxout: tf.Tensor | Absent  # with the weights of the maxout layer: [..., 2 · units]


class DecoderState(NamedTuple):
    """What the decoder carries from step to step, a row for each hypothesis."""

    cells: tuple[Any, ...]  # state of each layer
    attentional: tf.Tensor | Absent  # h̃ of the previous step, for input feeding: [batch, decoder output size]


class DecoderMemory(NamedTuple):
    """What every step reads, computed once: a row for each source, or for each hypothesis."""

    attended: Memory | Absent  # absent without attention
    thought: StepInputs | Absent  # of the thought vector; absent if it is only the initial state


class Decoder(tf.Module):
    """Stacked recurrent cells with attention.

    ::

        d_t = cell([x_t; h̃_{t-1}])      c_t = attention(d_t)      h̃_t = tanh(W_c [c_t; d_t])

    Without attention there is no input feeding and h̃_t = d_t. Source: Luong et al. 2015. Settings replace parts of it:

    - ``input_feeding`` false: d_t = cell(x_t).
    - ``attention_query`` previous: c_t = attention(d_{t-1}), d_t = cell([x_t; c_t]), where d_0 is the encoder's final
      state (Bahdanau et al. 2014).
    - ``context`` every_step: the cell's input is followed by the thought vector v, the final state of the encoder's
      top layer (Cho et al. 2014).
    - ``output`` maxout: h̃_t = max(t̃_t, t̃'_t) for the halves of [t̃_t; t̃'_t] = W_o [c_t; d_t; x_t]. Without attention
      c_t is v if every step reads it, and absent if not (Bahdanau et al. 2014).
    - ``residual`` true: d_t is the sum of the outputs of all layers, and the input of each layer from the second on is
      the sum of those below, so that a layer adds its input to its output (Wu et al. 2016, section 3.1).
    - ``output`` concatenated: h̃_t = [d_t; c_t] (the thesis, section 3.3).

    As c_t is a weighted sum, its part of W_c or W_o is applied to the values before the sum, once for all steps, unless
    the cell needs c_t itself. With W_c = [C; D]

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
        self.combine_words: Weight | None = None
        self.thought: Weight | None = None
        context = context_size(config)
        if config.attention != "none":
            self.attention = ATTENTIONS[config.attention]("decoder/attention", hidden_size, value_size, seed)
        if config.context == "every_step":
            gates = CELLS[config.cell].LAYOUT.gates
            self.thought = Weight("decoder/layer0/thought", hidden_size, gates * hidden_size, seed, gates=gates)
        if config.output == "maxout":
            units, fan_in = 2 * decoder_output_size(config), context + hidden_size + config.embedding_size
            if context:
                self.combine_context = Weight("decoder/maxout/context", context, units, seed, fan_in)
            self.combine_output = Weight("decoder/maxout/output", hidden_size, units, seed, fan_in)
            self.combine_words = Weight("decoder/maxout/words", config.embedding_size, units, seed, fan_in)
        elif self.attention is not None and config.output == "attentional":
            fan_in = value_size + hidden_size
            self.combine_context = Weight("decoder/combine/context", value_size, hidden_size, seed, fan_in)
            self.combine_output = Weight("decoder/combine/output", hidden_size, hidden_size, seed, fan_in)
        self.queries_previous, self.feeds_output = queries_previous(config), feeds_output(config)
        self.cells = [
            make_cell(
                config,
                f"decoder/layer{layer}",
                config.embedding_size if layer == 0 else 0,
                step_input_size(config) if layer == 0 else hidden_size,
                seed,
            )
            for layer in range(config.layers)
        ]

    def start(self, encoded: EncoderOutput) -> tuple[DecoderState, DecoderMemory]:
        """The state before the first word, and what every step reads."""
        attended: Memory | Absent = ()
        if self.attention is not None:
            attended = self.attention.setup_memory(encoded.outputs, encoded.lengths)
            if not self.queries_previous and self.combine_context is not None:
                attended = attended._replace(values=self.combine_context(attended.values))
        attentional: tf.Tensor | Absent = ()
        if self.feeds_output:
            attentional = tf.zeros([tf.shape(encoded.lengths)[0], decoder_output_size(self.config)])
        return DecoderState(encoded.states, attentional), DecoderMemory(attended, self.project_thought(encoded))

    def project_thought(self, encoded: EncoderOutput) -> StepInputs | Absent:
        """The thought vector's contribution to every step: [batch, …] each."""
        if self.thought is None:
            return ()
        vector = encoded.states[-1].output
        to_maxout = self.combine_context if self.maxout_reads_thought else None
        return StepInputs(self.thought(vector), () if to_maxout is None else to_maxout(vector))

    def project_inputs(self, vectors: tf.Tensor, thought: StepInputs | Absent = ()) -> StepInputs:
        """What is known of steps from their word vectors and the thought vector. vectors: [..., embedding]."""
        maxout = () if self.combine_words is None else self.combine_words(vectors)
        return self.add_thought(StepInputs(self.cells[0].project_inputs(vectors), maxout), thought)

    def add_thought(self, inputs: StepInputs, thought: StepInputs | Absent) -> StepInputs:
        """Add the thought vector's contribution to what is known of steps from their words alone."""
        if not thought:
            return inputs
        maxout = inputs.maxout + thought.maxout if self.maxout_reads_thought else inputs.maxout
        return StepInputs(inputs.cell + thought.cell, maxout)

    @property
    def weights_of_steps(self) -> list[Weight]:
        """The matrices of the products that depend on the step before."""
        weights = [weight for cell in self.cells for weight in cell.recurrent_weights]
        optional = [getattr(self.attention, "query", None), self.combine_output]
        if self.queries_previous:
            optional.append(self.combine_context)
        return weights + [weight for weight in optional if weight is not None]

    @property
    def maxout_reads_thought(self) -> bool:
        """Whether the maxout layer reads the thought vector in place of the context."""
        return self.combine_words is not None and self.thought is not None and self.attention is None

    def step_cells(
        self,
        projected: tf.Tensor,
        step_input: tf.Tensor | None,
        states: Sequence[Any],
        random: RandomContext | None = None,
        time: int | tf.Tensor | None = None,
    ) -> tuple[Any, ...]:
        """One step of the cells alone, without attention → the next states of all layers.

        Args:
            projected: :attr:`StepInputs.cell`, [batch, gates].
            step_input: from :meth:`step_input`.
            time: index of the step, for dropout.
        """
        first, *upper = self.cells
        new_states = [first(projected, step_input, states[0])]
        for layer, cell in enumerate(upper, start=1):
            below = dropout(self.top_output(new_states), random, f"decoder/{layer - 1}", time)
            new_states.append(cell(cell.project_inputs(None), below, states[layer]))
        return tuple(new_states)

    def top_output(self, states: Sequence[Any]) -> tf.Tensor:
        """d: the output of the top one of some layers, given the states of all of them: [batch, hidden]."""
        return tf.add_n([state.output for state in states]) if self.config.residual else states[-1].output

    def step_input(self, state: DecoderState, memory: DecoderMemory) -> tuple[tf.Tensor | None, tf.Tensor | None]:
        """What the first layer reads besides the word, [batch, …] or None: h̃_{t-1}, c_t or nothing.

        Followed by the attention that c_t results from: [batch, source steps].
        """
        if self.attention is not None and self.queries_previous and memory.attended:
            return self.attention(memory.attended, self.top_output(state.cells))
        return (state.attentional if self.feeds_output else None), None

    def combine(self, output: tf.Tensor, context: tf.Tensor | None, words: tf.Tensor | Absent) -> tf.Tensor:
        """h̃ of one or all steps: [..., decoder output size].

        Args:
            output: d, [..., hidden].
            context: the weighted sum of the memory's values, [..., units]; None without attention.
            words: :attr:`StepInputs.maxout`.
        """
        if self.config.output == "concatenated" and context is not None:
            return tf.concat([output, context], axis=-1)
        if self.combine_output is None:
            return output
        combined = self.combine_output(output)
        if context is not None:
            to_combined = self.combine_context if self.queries_previous else None
            combined = (context if to_combined is None else to_combined(context)) + combined
        if self.combine_words is None:
            return tf.tanh(combined)
        return tf.maximum(*tf.split(combined + words, 2, axis=-1))

    def step(
        self,
        inputs: StepInputs,
        state: DecoderState,
        memory: DecoderMemory,
        random: RandomContext | None = None,
        time: int | tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, DecoderState, tf.Tensor | None]:
        """One step. inputs: [batch, …] → h̃: [batch, units], next state, attention: [batch, source steps] or None."""
        states, context, weights = self._recur(inputs, state, memory, random, time)
        attentional = self.combine(self.top_output(states), context, inputs.maxout)
        return attentional, DecoderState(states, attentional if self.feeds_output else ()), weights

    def unroll(
        self,
        vectors: tf.Tensor,
        encoded: EncoderOutput,
        random: RandomContext | None = None,
        next_inputs: NextInputs | None = None,
    ) -> tf.Tensor:
        """All steps of training.

        Args:
            vectors: the vectors of the input words, [target steps, batch, embedding].
            next_inputs: computes the inputs from the second step on; None for teacher forcing with ``vectors``.

        Returns:
            h̃: [target steps, batch, decoder output size].
        """
        state, memory = self.start(encoded)
        step = copied(lambda inputs, state, t: self.step(inputs, state, memory, random, t)[:2])
        outputs: list[tf.Tensor] = []
        if next_inputs is None:  # all inputs are known: one product for all steps
            inputs = self.project_inputs(dropout(vectors, random, "decoder/words"), memory.thought)
            if not self.feeds_output:
                return self._unroll_without_feeding(inputs, state, memory, random)
            for t, step_inputs in enumerate(_unstack(inputs)):
                output, state = step(step_inputs, state, t)
                outputs.append(output)
            return tf.stack(outputs)
        for t, vector in enumerate(tf.unstack(vectors, vectors.shape[0])):
            chosen = next_inputs(t, vector, outputs[-1]) if outputs else vector
            inputs = self.project_inputs(dropout(chosen, random, "decoder/words", t), memory.thought)
            output, state = step(inputs, state, t)
            outputs.append(output)
        return tf.stack(outputs)

    def _unroll_without_feeding(
        self, inputs: StepInputs, state: DecoderState, memory: DecoderMemory, random: RandomContext | None
    ) -> tf.Tensor:
        """As no step needs h̃ of the one before, all are computed after the loop."""
        cells, outputs, contexts = state.cells, [], []
        step = copied(lambda inputs, cells, t: self._recur(inputs, DecoderState(cells, ()), memory, random, t)[:2])
        for t, step_inputs in enumerate(_unstack(inputs)):
            cells, context = step(step_inputs, cells, t)
            outputs.append(self.top_output(cells))
            contexts.append(context)
        return self.combine(tf.stack(outputs), tf.stack(contexts) if self.attention else None, inputs.maxout)

    def _recur(
        self,
        inputs: StepInputs,
        state: DecoderState,
        memory: DecoderMemory,
        random: RandomContext | None,
        time: int | tf.Tensor | None,
    ) -> tuple[tuple[Any, ...], tf.Tensor | None, tf.Tensor | None]:
        """The cells and the attention of one step: next states of the layers, context, attention weights."""
        context, weights = self.step_input(state, memory)
        states = self.step_cells(inputs.cell, context, state.cells, random, time)
        if self.attention is not None and not self.queries_previous and memory.attended:
            context, weights = self.attention(memory.attended, self.top_output(states))
        return states, context, weights


def _unstack(inputs: StepInputs) -> list[StepInputs]:
    """The inputs of all steps, [target steps, batch, …], as one :class:`StepInputs` for each step."""
    cell = tf.unstack(inputs.cell)
    maxout = [()] * len(cell) if isinstance(inputs.maxout, tuple) else tf.unstack(inputs.maxout)
    return [StepInputs(*step) for step in zip(cell, maxout, strict=True)]
