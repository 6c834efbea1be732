"""The decoder: one step, and the steps of training unrolled over the words that should come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional, Union

import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.model.attention import ATTENTIONS, Memory
from seq2seq_chat.model.cells import CELLS
from seq2seq_chat.model.dropout import Dropout, drop
from seq2seq_chat.model.encoder import Encoded, source_units
from seq2seq_chat.model.weights import Weight

Replace = Callable[[Union[int, tf.Tensor], tf.Tensor, tf.Tensor], tf.Tensor]
"""(t, vectors of the words that step t is given, h̃ of the step before) → vectors given instead, [batch, embedding]."""


class DecoderState(NamedTuple):
    """What the decoder carries from word to word; every tensor has one row for each hypothesis."""

    cells: tuple[Any, ...]  # of each layer
    attentional: tf.Tensor  # h̃ of the step before, fed into the next one: [batch, hidden]


class Decoder(tf.Module):
    """Stacked recurrent cells with attention and input feeding.

    ::

        d_t = cell([x_t; h̃_{t-1}])      c_t = attention(d_t)      h̃_t = tanh(W_c [c_t; d_t])

    Without attention nothing is fed and h̃_t = d_t. Source: Luong et al. 2015; documents 000 and 002.

    As c_t is a weighted sum, its half of W_c is taken into the sum, once for all steps: with W_c = [C; D]

    ::

        W_c [c_t; d_t] = Σ_i a_ti (C h_i) + D d_t
    """

    def __init__(self, config: Model, seed: int) -> None:
        super().__init__()
        hidden = config.hidden_size
        attends = config.attention != "none"
        values = source_units(config)
        self.attention = (
            ATTENTIONS[config.attention]("decoder/attention", hidden=hidden, values=values, seed=seed)
            if attends
            else None
        )
        self.combine_context, self.combine_output = (
            Weight(f"decoder/combine/{part}", units, hidden, seed, all_inputs=values + hidden) if attends else None
            for part, units in (("context", values), ("output", hidden))
        )
        self.cells = [
            CELLS[config.cell](
                f"decoder/layer{layer}",
                config.embedding_size if layer == 0 else 0,
                hidden if layer > 0 or attends else 0,
                hidden,
                seed,
            )
            for layer in range(config.layers)
        ]

    def start(self, encoded: Encoded) -> tuple[DecoderState, Optional[Memory]]:
        """The state before the first word, and what will be attended to."""
        memory = None
        if self.attention is not None and self.combine_context is not None:
            memory = self.attention.remember(encoded.outputs, encoded.lengths)
            memory = memory._replace(values=self.combine_context(memory.values))
        return DecoderState(encoded.states, tf.zeros_like(encoded.states[-1].output)), memory

    def prepare(self, vectors: tf.Tensor) -> tf.Tensor:
        """The words' part of the first layer's gates. vectors: [..., embedding] → [..., gates]."""
        return self.cells[0].prepare(vectors)

    def advance(
        self,
        prepared: tf.Tensor,
        fed: Optional[tf.Tensor],
        states: Sequence[Any],
        dropout: Optional[Dropout] = None,
        time: Union[int, tf.Tensor, None] = None,
    ) -> tuple[Any, ...]:
        """The cells alone. prepared: [batch, gates], fed: h̃ of the step before, or None → the states of all layers."""
        cells: list[Any] = []
        for layer, cell in enumerate(self.cells):
            if layer:
                fed = drop(dropout, cells[-1].output, f"decoder/{layer - 1}", time)
            cells.append(cell(cell.prepare(None) if layer else prepared, fed, states[layer]))
        return tuple(cells)

    def step(
        self,
        prepared: tf.Tensor,
        state: DecoderState,
        memory: Optional[Memory],
        dropout: Optional[Dropout] = None,
        time: Union[int, tf.Tensor, None] = None,
    ) -> tuple[tf.Tensor, DecoderState, Optional[tf.Tensor]]:
        """One word. prepared: [batch, gates] → h̃: [batch, hidden], the next state, attention: [batch, source steps]."""
        cells = self.advance(prepared, state.attentional if self.attention else None, state.cells, dropout, time)
        output, weights = cells[-1].output, None
        if self.attention is not None and self.combine_output is not None and memory is not None:
            context, weights = self.attention(memory, output)
            output = tf.tanh(context + self.combine_output(output))
        return output, DecoderState(cells, output), weights

    def unroll(
        self,
        vectors: tf.Tensor,
        encoded: Encoded,
        dropout: Optional[Dropout] = None,
        replace: Optional[Replace] = None,
    ) -> tf.Tensor:
        """All steps of training.

        Args:
            vectors: of the words the decoder is given, [target steps, batch, embedding].
            replace: gives other words from the second step on; without it the right ones are given.

        Returns:
            h̃: [target steps, batch, hidden].
        """
        state, memory = self.start(encoded)
        if replace is None:
            given = tf.unstack(self.prepare(drop(dropout, vectors, "decoder/words")), vectors.shape[0])
        else:
            given = tf.unstack(vectors)
        outputs: list[tf.Tensor] = []
        for t, known in enumerate(given):
            prepared = known
            if replace is not None:
                words = replace(t, known, outputs[-1]) if outputs else known
                prepared = self.prepare(drop(dropout, words, "decoder/words", t))
            output, state, _ = self.step(prepared, state, memory, dropout, t)
            outputs.append(output)
        return tf.stack(outputs)
