"""Recurrent cells: one step of a recurrent network.

A cell's input has two parts. What is known for all steps before the loop starts (word vectors, or the layer below in
the encoder) goes through :meth:`Cell.prepare` in one large product. What becomes known only inside the loop (the
previous output that is fed back, or the layer below in the decoder) is given to every step. In the equations x is both
of them; a cell has one bias for each gate, added to the known part.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Optional, Union

import tensorflow as tf

from seq2seq_chat.model.weights import Weight


class LSTMState(NamedTuple):
    """The state an LSTM carries from step to step."""

    output: tf.Tensor  # h: [batch, hidden]
    memory: tf.Tensor  # c: [batch, hidden]


class PlainState(NamedTuple):
    """The state of a cell that carries nothing but its output."""

    output: tf.Tensor  # h: [batch, hidden]


State = Union[LSTMState, PlainState]


class Cell(tf.Module):
    """What all cells have in common.

    Args:
        name: beginning of the variables' names.
        known: units of the input that is known before the loop, 0 for none.
        fed: units of the input that every step is given, 0 for none.
        hidden: units of the state.
        seed: of the experiment.
    """

    GATES: ClassVar[int]  # blocks of units side by side, the candidate among them
    STATE: ClassVar[Any]
    recurrent: Weight  # what the state goes through; the checks follow its gradient from step to step

    def __init__(self, name: str, known: int, fed: int, hidden: int, seed: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.input = Weight(f"{name}/input", known, self.GATES * hidden, seed) if known else None
        self.bias = tf.Variable(self._first_bias(), name=f"{name}/bias")

    def zero_state(self, batch: tf.Tensor) -> Any:
        """The state before the first step, [batch, hidden] each."""
        return self.STATE(*(tf.zeros([batch, self.hidden]) for _ in self.STATE._fields))

    def prepare(self, known: Optional[tf.Tensor]) -> tf.Tensor:
        """The known input's part of all gates. known: [..., known] → [..., gates], or [gates] without one."""
        if self.input is None:
            return self.bias
        assert known is not None
        return self.input(known) + self.bias

    def __call__(self, prepared: tf.Tensor, fed: Optional[tf.Tensor], state: Any) -> Any:
        """One step. prepared: [batch, gates], fed: [batch, fed] → the next state."""
        raise NotImplementedError

    def _first_bias(self) -> tf.Tensor:
        return tf.zeros(self.GATES * self.hidden)


class LSTMCell(Cell):
    """Long short-term memory (Hochreiter & Schmidhuber 1997), as in the source documents 000 and 004.

    ::

        i = σ(W_i [x; h] + b_i)     f = σ(W_f [x; h] + b_f)     o = σ(W_o [x; h] + b_o)     g = tanh(W_g [x; h] + b_g)
        c' = f ∘ c + i ∘ g          h' = o ∘ tanh(c')

    The four matrices lie side by side in the order i, f, o, g. b_f starts at 1 so that a new cell remembers
    (Jozefowicz et al. 2015), the other biases at 0.
    """

    GATES, STATE = 4, LSTMState

    def __init__(self, name: str, known: int, fed: int, hidden: int, seed: int) -> None:
        super().__init__(name, known, fed, hidden, seed)
        self.recurrent = Weight(f"{name}/recurrent", fed + hidden, self.GATES * hidden, seed)

    def __call__(self, prepared: tf.Tensor, fed: Optional[tf.Tensor], state: LSTMState) -> LSTMState:
        """One step. prepared: [batch, 4 hidden], fed: [batch, fed] → the next state."""
        gates = prepared + self.recurrent(_joined(fed, state.output))
        sigmoids, candidate = tf.split(gates, [3 * self.hidden, self.hidden], axis=1)
        write, keep, read = tf.split(tf.sigmoid(sigmoids), 3, axis=1)
        memory = keep * state.memory + write * tf.tanh(candidate)
        return LSTMState(read * tf.tanh(memory), memory)

    def _first_bias(self) -> tf.Tensor:
        return tf.concat([tf.zeros(self.hidden), tf.ones(self.hidden), tf.zeros(2 * self.hidden)], axis=0)


class GRUCell(Cell):
    """Gated recurrent unit (Cho et al. 2014), as in the source documents 001 and 004.

    ::

        z = σ(W_z [x; h] + b_z)     r = σ(W_r [x; h] + b_r)     h̃ = tanh(W_h [x; r ∘ h] + b_h)
        h' = (1 - z) ∘ h + z ∘ h̃

    The variant whose reset gate works on the state before the product (Keras: ``reset_after=False``), with one bias
    for each gate. z says how much is renewed; Keras's z, and that of the paper, says how much is kept, which is 1 - z.
    The matrices of x lie side by side in the order z, r, h̃.
    """

    GATES, STATE = 3, PlainState

    def __init__(self, name: str, known: int, fed: int, hidden: int, seed: int) -> None:
        super().__init__(name, known, fed, hidden, seed)
        self.recurrent = Weight(f"{name}/recurrent", fed + hidden, 2 * hidden, seed)
        self.candidate = Weight(f"{name}/candidate", fed + hidden, hidden, seed)

    def __call__(self, prepared: tf.Tensor, fed: Optional[tf.Tensor], state: PlainState) -> PlainState:
        """One step. prepared: [batch, 3 hidden] or [3 hidden], fed: [batch, fed] → the next state."""
        known_gates, known_candidate = tf.split(prepared, [2 * self.hidden, self.hidden], axis=-1)
        gates = tf.sigmoid(known_gates + self.recurrent(_joined(fed, state.output)))
        renew, reset = tf.split(gates, 2, axis=1)
        candidate = tf.tanh(known_candidate + self.candidate(_joined(fed, reset * state.output)))
        return PlainState(state.output + renew * (candidate - state.output))


class RNNCell(Cell):
    """Vanilla recurrent cell (Elman 1990), as in the source documents 000 and 004: h' = tanh(W [x; h] + b)."""

    GATES, STATE = 1, PlainState

    def __init__(self, name: str, known: int, fed: int, hidden: int, seed: int) -> None:
        super().__init__(name, known, fed, hidden, seed)
        self.recurrent = Weight(f"{name}/recurrent", fed + hidden, hidden, seed)

    def __call__(self, prepared: tf.Tensor, fed: Optional[tf.Tensor], state: PlainState) -> PlainState:
        """One step. prepared: [batch, hidden] or [hidden], fed: [batch, fed] → the next state."""
        return PlainState(tf.tanh(prepared + self.recurrent(_joined(fed, state.output))))


CELLS: dict[str, Any] = {"lstm": LSTMCell, "gru": GRUCell, "rnn": RNNCell}


def carry(running: tf.Tensor, new: Any, old: Any) -> Any:
    """The new state where ``running``, [batch, 1], is true; elsewhere the sequence has ended and keeps the old."""
    return type(new)(*(tf.where(running, n, o) for n, o in zip(new, old, strict=True)))


def _joined(fed: Optional[tf.Tensor], state: tf.Tensor) -> tf.Tensor:
    return state if fed is None else tf.concat([fed, state], axis=1)
