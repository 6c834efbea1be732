"""The encoder: reads the source utterance, word by word, statically unrolled."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.model.cells import CELLS, Cell, carry
from seq2seq_chat.model.dropout import Dropout, drop
from seq2seq_chat.model.weights import Weight


class Encoded(NamedTuple):
    """What the encoder hands to the decoder."""

    outputs: tf.Tensor  # the top layer's output at every step: [batch, source steps, source units]
    states: tuple[Any, ...]  # each layer's state after the last real word: the thought vector
    lengths: tf.Tensor  # real words of each source: [batch]


def source_units(config: Model) -> int:
    """Units of the encoder's outputs: those of both directions, where there are two."""
    return config.hidden_size * (2 if config.bidirectional else 1)


class Encoder(tf.Module):
    """Stacked recurrent cells over the source, in one direction or in both.

    The state is carried unchanged through padding, so what the decoder starts from does not depend on how far a batch
    was padded. With two directions (Schuster & Paliwal 1997) each layer gives the outputs of both side by side, and
    :class:`Bridge` makes one state of their last two.
    """

    def __init__(self, config: Model, seed: int) -> None:
        super().__init__()
        sizes = [config.embedding_size] + [source_units(config)] * (config.layers - 1)

        def cells(direction: str) -> list[Cell]:
            return [
                CELLS[config.cell](f"encoder/layer{layer}{direction}", known, 0, config.hidden_size, seed)
                for layer, known in enumerate(sizes)
            ]

        self.cells = cells("")
        self.backward_cells = cells("/backward") if config.bidirectional else []
        self.bridges = [
            Bridge(f"encoder/layer{layer}/bridge", cell, seed) for layer, cell in enumerate(self.backward_cells)
        ]

    def __call__(self, vectors: tf.Tensor, lengths: tf.Tensor, dropout: Optional[Dropout] = None) -> Encoded:
        """vectors: [source steps, batch, embedding] (time first), lengths: [batch]."""
        source_steps = vectors.shape[0]
        running = tf.unstack(tf.transpose(tf.sequence_mask(lengths, source_steps))[:, :, tf.newaxis], source_steps)
        outputs, states = vectors, []
        for layer, cell in enumerate(self.cells):
            inputs = drop(dropout, outputs, f"encoder/{layer}")
            state, steps = _read(cell, inputs, running, range(source_steps))
            if self.backward_cells:
                back, steps_back = _read(self.backward_cells[layer], inputs, running, range(source_steps)[::-1])
                state = self.bridges[layer](state, back)
                steps = [tf.concat(both, axis=1) for both in zip(steps, steps_back, strict=True)]
            outputs = tf.stack(steps)
            states.append(state)
        return Encoded(tf.transpose(outputs, [1, 0, 2]), tuple(states), lengths)


class Bridge(tf.Module):
    """From the last states of two directions to one: h = tanh(W_h [h→; h←] + b_h), c = W_c [c→; c←] + b_c.

    h is kept where a cell's outputs are, between -1 and 1; c has no bounds.
    """

    def __init__(self, name: str, cell: Cell, seed: int) -> None:
        super().__init__()
        parts = cell.STATE._fields
        self.weights = [Weight(f"{name}/{part}", 2 * cell.hidden, cell.hidden, seed) for part in parts]
        self.biases = [tf.Variable(tf.zeros(cell.hidden), name=f"{name}/{part}/bias") for part in parts]

    def __call__(self, forward: Any, backward: Any) -> Any:
        """States of two directions → a state of the same kind."""
        joined = [
            weight(tf.concat(both, axis=1)) + bias
            for weight, bias, *both in zip(self.weights, self.biases, forward, backward, strict=True)
        ]
        return type(forward)(tf.tanh(joined[0]), *joined[1:])


def _read(cell: Cell, inputs: tf.Tensor, running: list[tf.Tensor], order: range) -> tuple[Any, list[tf.Tensor]]:
    """The last state of a cell that reads in some order, and its outputs by step: [batch, hidden] each."""
    prepared = tf.unstack(cell.prepare(inputs), len(order))
    state, outputs = cell.zero_state(tf.shape(inputs)[1]), list(prepared)
    for t in order:
        state = carry(running[t], cell(prepared[t], None, state), state)
        outputs[t] = state.output
    return state, outputs
