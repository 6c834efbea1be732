"""The encoder: reads the source utterance, word by word, statically unrolled."""

from __future__ import annotations

from typing import NamedTuple, Optional

import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.model.cells import CELLS, LSTMState, carry
from seq2seq_chat.model.dropout import Dropout, drop


class Encoded(NamedTuple):
    """What the encoder hands to the decoder."""

    outputs: tf.Tensor  # the top layer's output at every step: [batch, source steps, hidden]
    states: tuple[LSTMState, ...]  # each layer's state after the last real word: the thought vector
    lengths: tf.Tensor  # real words of each source: [batch]


class Encoder(tf.Module):
    """Stacked recurrent cells over the source.

    The state is carried unchanged through padding, so what the decoder starts from does not depend on how far a batch
    was padded.
    """

    def __init__(self, config: Model, seed: int) -> None:
        super().__init__()
        sizes = [config.embedding_size] + [config.hidden_size] * (config.layers - 1)
        self.cells = [
            CELLS[config.cell](f"encoder/layer{layer}", known=size, fed=0, hidden=config.hidden_size, seed=seed)
            for layer, size in enumerate(sizes)
        ]

    def __call__(self, vectors: tf.Tensor, lengths: tf.Tensor, dropout: Optional[Dropout] = None) -> Encoded:
        """vectors: [source steps, batch, embedding] (time first), lengths: [batch]."""
        source_steps = vectors.shape[0]
        running = tf.unstack(tf.transpose(tf.sequence_mask(lengths, source_steps))[:, :, tf.newaxis], source_steps)
        outputs, states = vectors, []
        for layer, cell in enumerate(self.cells):
            prepared = tf.unstack(cell.prepare(drop(dropout, outputs, f"encoder/{layer}")), source_steps)
            state, steps = cell.zero_state(tf.shape(lengths)[0]), []
            for t in range(source_steps):
                state = carry(running[t], cell(prepared[t], None, state), state)
                steps.append(state.output)
            outputs = tf.stack(steps)
            states.append(state)
        return Encoded(tf.transpose(outputs, [1, 0, 2]), tuple(states), lengths)
