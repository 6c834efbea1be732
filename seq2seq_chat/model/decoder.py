"""The decoder: one step, and the steps of training unrolled over the words that should come."""

from __future__ import annotations

from typing import NamedTuple, Optional

import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.model.attention import ATTENTIONS, Memory
from seq2seq_chat.model.cells import CELLS, LSTMState
from seq2seq_chat.model.dropout import Dropout, drop
from seq2seq_chat.model.encoder import Encoded
from seq2seq_chat.model.weights import Weight


class DecoderState(NamedTuple):
    """What the decoder carries from word to word; every tensor has one row for each hypothesis."""

    cells: tuple[LSTMState, ...]
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
        self.attention = (
            ATTENTIONS[config.attention]("decoder/attention", hidden=hidden, values=hidden, seed=seed)
            if attends
            else None
        )
        self.combine_context, self.combine_output = (
            Weight(f"decoder/combine/{part}", hidden, hidden, seed, all_inputs=2 * hidden) if attends else None
            for part in ("context", "output")
        )
        self.cells = [
            CELLS[config.cell](
                f"decoder/layer{layer}",
                known=config.embedding_size if layer == 0 else 0,
                fed=hidden if layer > 0 or attends else 0,
                hidden=hidden,
                seed=seed,
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

    def step(
        self,
        prepared: tf.Tensor,
        state: DecoderState,
        memory: Optional[Memory],
        dropout: Optional[Dropout] = None,
        place: str = "",
    ) -> tuple[tf.Tensor, DecoderState, Optional[tf.Tensor]]:
        """One word. prepared: [batch, gates] → h̃: [batch, hidden], the next state, attention: [batch, source steps]."""
        fed = state.attentional if self.attention else None
        cells = []
        for layer, cell in enumerate(self.cells):
            cells.append(cell(prepared if layer == 0 else cell.prepare(None), fed, state.cells[layer]))
            fed = drop(dropout, cells[-1].output, f"decoder/{layer}/{place}") if layer + 1 < len(self.cells) else None
        output, weights = cells[-1].output, None
        if self.attention is not None and self.combine_output is not None and memory is not None:
            context, weights = self.attention(memory, output)
            output = tf.tanh(context + self.combine_output(output))
        return output, DecoderState(tuple(cells), output), weights

    def unroll(self, vectors: tf.Tensor, encoded: Encoded, dropout: Optional[Dropout] = None) -> tf.Tensor:
        """All steps of training. vectors: [target steps, batch, embedding] → h̃: [target steps, batch, hidden]."""
        state, memory = self.start(encoded)
        prepared = tf.unstack(self.prepare(drop(dropout, vectors, "decoder/words")), vectors.shape[0])
        outputs = []
        for t, known in enumerate(prepared):
            output, state, _ = self.step(known, state, memory, dropout, place=str(t))
            outputs.append(output)
        return tf.stack(outputs)
