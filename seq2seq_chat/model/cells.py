"""Recurrent cells: one step of a recurrent network.

A cell's input has two parts. What is known for all steps before the loop starts (word vectors, or the layer below in
the encoder) goes through :meth:`prepare` in one large product. What becomes known only inside the loop (the previous
output that is fed back, or the layer below in the decoder) is given to every step.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import tensorflow as tf

from seq2seq_chat.model.weights import Weight


class LSTMState(NamedTuple):
    """The state an LSTM carries from step to step."""

    output: tf.Tensor  # h: [batch, hidden]
    memory: tf.Tensor  # c: [batch, hidden]


class LSTMCell(tf.Module):
    """Long short-term memory (Hochreiter & Schmidhuber 1997), as in the source documents 000 and 004.

    ::

        i = σ(W_i [x; h] + b_i)     f = σ(W_f [x; h] + b_f)     o = σ(W_o [x; h] + b_o)     g = tanh(W_g [x; h] + b_g)
        c' = f ∘ c + i ∘ g          h' = o ∘ tanh(c')

    The four matrices lie side by side in the order i, f, o, g. b_f starts at 1 so that a new cell remembers
    (Jozefowicz et al. 2015), the other biases at 0.

    Args:
        known: units of the input that is known before the loop, 0 for none.
        fed: units of the input that every step is given, 0 for none.
        hidden: units of the state.
    """

    GATES = 4

    def __init__(self, name: str, known: int, fed: int, hidden: int, seed: int) -> None:
        super().__init__()
        self.hidden = hidden
        width = self.GATES * hidden
        self.input = Weight(f"{name}/input", known, width, seed) if known else None
        self.recurrent = Weight(f"{name}/recurrent", fed + hidden, width, seed)
        self.bias = tf.Variable(
            tf.concat([tf.zeros(hidden), tf.ones(hidden), tf.zeros(2 * hidden)], axis=0), name=f"{name}/bias"
        )

    def zero_state(self, batch: tf.Tensor) -> LSTMState:
        """The state before the first step, [batch, hidden] each."""
        return LSTMState(tf.zeros([batch, self.hidden]), tf.zeros([batch, self.hidden]))

    def prepare(self, known: Optional[tf.Tensor]) -> tf.Tensor:
        """The known input's part of all gates. known: [..., known] → [..., 4 hidden], or [4 hidden] without one."""
        if self.input is None:
            return self.bias
        assert known is not None
        return self.input(known) + self.bias

    def __call__(self, prepared: tf.Tensor, fed: Optional[tf.Tensor], state: LSTMState) -> LSTMState:
        """One step. prepared: [batch, 4 hidden], fed: [batch, fed] → the next state."""
        inside = state.output if fed is None else tf.concat([fed, state.output], axis=1)
        gates = prepared + self.recurrent(inside)
        sigmoids, candidate = tf.split(gates, [3 * self.hidden, self.hidden], axis=1)
        write, keep, read = tf.split(tf.sigmoid(sigmoids), 3, axis=1)
        memory = keep * state.memory + write * tf.tanh(candidate)
        return LSTMState(read * tf.tanh(memory), memory)


CELLS = {"lstm": LSTMCell}


def carry(running: tf.Tensor, new: LSTMState, old: LSTMState) -> LSTMState:
    """The new state where ``running``, [batch, 1], is true; elsewhere the sequence has ended and keeps the old."""
    return type(new)(*(tf.where(running, n, o) for n, o in zip(new, old, strict=True)))
