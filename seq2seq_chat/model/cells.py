"""Recurrent cells: one step of a recurrent network.

A cell's input has two parts. The part that is known for all steps before the loop starts (word vectors, or the layer
below in the encoder) goes through :meth:`Cell.project_inputs` in one large product. The part that becomes known inside
the loop (input feeding, or the layer below in the decoder) is the step input. In the equations x is both, concatenated;
a cell has one bias for each gate, added to the projected inputs.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import tensorflow as tf

from seq2seq_chat.architecture.variables import CELL_LAYOUTS, FORGET_BIAS, CellLayout
from seq2seq_chat.config import Model
from seq2seq_chat.model.deferred import concat, select
from seq2seq_chat.model.variables import Weight, glorot, orthogonal

RecurrentInitializer = Literal["glorot", "orthogonal", "identity"]


class LSTMState(NamedTuple):
    output: tf.Tensor  # h: [batch, hidden]
    memory: tf.Tensor  # c: [batch, hidden]


class HiddenState(NamedTuple):
    """The state of a cell that carries only its output from step to step."""

    output: tf.Tensor  # h: [batch, hidden]


class Cell(tf.Module):
    """Base class of all cells.

    Args:
        name: prefix of the variables' names.
        input_size: units of the input that is known before the loop, 0 for none.
        step_input_size: units of the step input, 0 for none.
        hidden_size: units of the state.
        initializer: how the matrices of the state are initialized; see :func:`initial_recurrent_matrix`.
    """

    LAYOUT: ClassVar[CellLayout]
    STATE: ClassVar[Any]  # type of the state
    recurrent: Weight  # the checks follow its gradient from step to step

    def __init__(
        self,
        name: str,
        input_size: int,
        step_input_size: int,
        hidden_size: int,
        seed: int,
        initializer: RecurrentInitializer = "glorot",
    ) -> None:
        super().__init__()
        self.hidden_size, gates = hidden_size, self.LAYOUT.gates
        self.input: Weight | None = None
        if input_size:
            self.input = Weight(f"{name}/input", input_size, gates * hidden_size, seed, gates=gates)
        self.bias = tf.Variable(self._initial_bias(), name=f"{name}/bias")
        for field, gates in self.LAYOUT.recurrent.items():
            sizes = (step_input_size, hidden_size, gates)
            matrix = initial_recurrent_matrix(initializer, sizes, seed, f"{name}/{field}")
            inputs, outputs = step_input_size + hidden_size, gates * hidden_size
            setattr(self, field, Weight(f"{name}/{field}", inputs, outputs, seed, initial=matrix))

    @property
    def recurrent_weights(self) -> list[Weight]:
        """The matrices applied to the state."""
        return [getattr(self, field) for field in self.LAYOUT.recurrent]

    def zero_state(self, batch: tf.Tensor) -> Any:
        """The state before the first step, [batch, hidden] each."""
        return self.STATE(*(tf.zeros([batch, self.hidden_size]) for _ in self.STATE._fields))

    def project_inputs(self, inputs: tf.Tensor | None) -> tf.Tensor:
        """The inputs' contribution to all gates. inputs: [..., input size], or None → [..., gates], or [gates]."""
        if self.input is None:
            return self.bias
        assert inputs is not None
        return tf.nn.bias_add(self.input(inputs), self.bias)

    def __call__(self, projected: tf.Tensor, step_input: tf.Tensor | None, state: Any) -> Any:
        """One step. projected: [batch, gates] or [gates], step_input: [batch, step input size] → the next state."""
        raise NotImplementedError

    def _initial_bias(self) -> tf.Tensor:
        return tf.zeros(self.LAYOUT.gates * self.hidden_size)


class LSTMCell(Cell):
    """Long short-term memory (Hochreiter & Schmidhuber 1997) with forget gates (Gers et al. 2000).

    ::

        i = σ(W_i [x; h] + b_i)     f = σ(W_f [x; h] + b_f)     o = σ(W_o [x; h] + b_o)     g = tanh(W_g [x; h] + b_g)
        c' = f ∘ c + i ∘ g          h' = o ∘ tanh(c')

    The four matrices are concatenated in the order i, f, o, g. b_f starts at 1 so that a new cell remembers
    (Jozefowicz et al. 2015), the other biases at 0.
    """

    LAYOUT, STATE = CELL_LAYOUTS["lstm"], LSTMState

    def __call__(self, projected: tf.Tensor, step_input: tf.Tensor | None, state: LSTMState) -> LSTMState:
        gates = projected + self.recurrent(_concat(step_input, state.output))
        input_gate, forget_gate, output_gate, candidate = tf.split(gates, 4, axis=1)
        memory = tf.sigmoid(forget_gate) * state.memory + tf.sigmoid(input_gate) * tf.tanh(candidate)
        return LSTMState(tf.sigmoid(output_gate) * tf.tanh(memory), memory)

    def _initial_bias(self) -> tf.Tensor:
        hidden = self.hidden_size
        return tf.concat([tf.zeros(hidden), tf.fill([hidden], FORGET_BIAS), tf.zeros(2 * hidden)], axis=0)


class GRUCell(Cell):
    """Gated recurrent unit (Cho et al. 2014).

    ::

        z = σ(W_z [x; h] + b_z)     r = σ(W_r [x; h] + b_r)     h̃ = tanh(W_h [x; r ∘ h] + b_h)
        h' = (1 - z) ∘ h + z ∘ h̃

    The reset gate is applied to the state before the product (Keras: ``reset_after=False``), with one bias for each
    gate. z weights the new value; in the paper and in Keras it weights the old one, so their z is 1 - z here.
    The matrices of x are concatenated in the order z, r, h̃.
    """

    LAYOUT, STATE = CELL_LAYOUTS["gru"], HiddenState
    candidate: Weight

    def __call__(self, projected: tf.Tensor, step_input: tf.Tensor | None, state: HiddenState) -> HiddenState:
        projected_gates, projected_candidate = tf.split(projected, [2 * self.hidden_size, self.hidden_size], axis=-1)
        gates = tf.sigmoid(projected_gates + self.recurrent(_concat(step_input, state.output)))
        update, reset = tf.split(gates, 2, axis=1)
        candidate = tf.tanh(projected_candidate + self.candidate(_concat(step_input, reset * state.output)))
        return HiddenState(state.output + update * (candidate - state.output))


class RNNCell(Cell):
    """Vanilla recurrent cell (Elman 1990): h' = tanh(W [x; h] + b)."""

    LAYOUT, STATE = CELL_LAYOUTS["rnn"], HiddenState
    activation = staticmethod(tf.tanh)

    def __call__(self, projected: tf.Tensor, step_input: tf.Tensor | None, state: HiddenState) -> HiddenState:
        return HiddenState(self.activation(projected + self.recurrent(_concat(step_input, state.output))))


class ReLUCell(RNNCell):
    """Vanilla cell of rectified linear units (Le et al. 2015): h' = max(0, W [x; h] + b)."""

    activation = staticmethod(tf.nn.relu)


CELLS: dict[str, Any] = {"lstm": LSTMCell, "gru": GRUCell, "rnn": RNNCell}


def make_cell(config: Model, name: str, input_size: int, step_input_size: int, seed: int) -> Cell:
    """A cell of the configured kind; see :class:`Cell` for the arguments."""
    kind = ReLUCell if (config.cell, config.activation) == ("rnn", "relu") else CELLS[config.cell]
    return kind(name, input_size, step_input_size, config.hidden_size, seed, config.recurrent_initializer)


def initial_recurrent_matrix(
    initializer: RecurrentInitializer, sizes: tuple[int, int, int], seed: int, name: str
) -> tf.Tensor:
    """The initial matrix that is applied to [step input; state], [step input size + hidden, gates × hidden].

    With ``glorot`` each gate has the limits of a matrix of its own; the limits of all gates as one matrix are so narrow
    that in the first hundreds of steps the encoder's outputs hardly depend on its input, and attention learns late.
    With ``orthogonal`` (Saxe et al. 2014) and ``identity`` (Le et al. 2015), that is the kind of each gate's square
    matrix of the state, so that a linear cell would pass gradients through time unchanged. The rows of the step input
    are always as with ``glorot``.

    Args:
        sizes: step input size, hidden size and number of gates.
    """
    step_input_size, hidden_size, gates = sizes
    matrix = glorot([step_input_size + hidden_size, gates * hidden_size], seed, name, gates=gates)
    if initializer == "glorot":
        return matrix
    if initializer == "identity":
        squares = [tf.eye(hidden_size)] * gates
    else:
        squares = [orthogonal(hidden_size, seed, f"{name}/{gate}") for gate in range(gates)]
    return tf.concat([matrix[:step_input_size], tf.concat(squares, axis=1)], axis=0)


def masked_update(mask: tf.Tensor, new: Any, old: Any) -> Any:
    """The new state where ``mask``, bool [batch, 1], is true; the old one elsewhere."""
    return type(new)(*(select(mask, n, o) for n, o in zip(new, old, strict=True)))


def _concat(step_input: tf.Tensor | None, state: tf.Tensor) -> tf.Tensor:
    return state if step_input is None else concat([step_input, state])
