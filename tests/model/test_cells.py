"""One step of each cell against Keras's own cell with the same weights."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.model.cells import CELLS
from tests.random_weights import randomize

INPUT, STEP_INPUT, HIDDEN, ROWS = 5, 3, 7, 4


def random_cell(kind: str, input_size: int, step_input_size: int) -> tuple[Any, Any, Any, list[tf.Tensor]]:
    """A cell, its input, step input and state."""
    cell = CELLS[kind]("cell", input_size, step_input_size, HIDDEN, seed=1)
    rng = randomize(cell, seed=4)

    def rows(units: int) -> Any:
        return tf.constant(rng.normal(size=[ROWS, units]).astype(np.float32)) if units else None

    return cell, rows(input_size), rows(step_input_size), [rows(HIDDEN) for _ in cell.STATE._fields]


@pytest.mark.parametrize(("input_size", "step_input_size"), [(INPUT, STEP_INPUT), (INPUT, 0), (0, STEP_INPUT)])
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_step_equals_keras(kind: str, input_size: int, step_input_size: int) -> None:
    cell, x, step_input, state = random_cell(kind, input_size, step_input_size)
    next_state = cell(cell.project_inputs(x), step_input, cell.STATE(*state))

    # Keras concatenates x and the step input; our recurrent matrix has the rows of the step input above those of h
    input_matrix = cell.input.matrix.numpy() if input_size else np.zeros([0, cell.LAYOUT.gates * HIDDEN], np.float32)
    recurrent_matrix = cell.recurrent.matrix.numpy()
    if kind == "gru":
        recurrent_matrix = np.concatenate([recurrent_matrix, cell.candidate.matrix.numpy()], axis=1)
    kernel = np.concatenate([input_matrix, recurrent_matrix[:step_input_size]])
    recurrent = recurrent_matrix[step_input_size:]
    bias = cell.bias.numpy()
    if kind == "lstm":  # ours: i, f, o, g; Keras: i, f, g, o
        keras = tf.keras.layers.LSTMCell(HIDDEN)
        kernel, recurrent, bias = (
            np.concatenate([np.split(part, 4, axis=-1)[gate] for gate in (0, 1, 3, 2)], axis=-1)
            for part in (kernel, recurrent, bias)
        )
    elif kind == "gru":  # our z is 1 - z of Keras, and σ(-a) = 1 - σ(a)
        keras = tf.keras.layers.GRUCell(HIDDEN, reset_after=False)
        kernel, recurrent, bias = (
            np.concatenate([-part[..., :HIDDEN], part[..., HIDDEN:]], axis=-1) for part in (kernel, recurrent, bias)
        )
    else:
        keras = tf.keras.layers.SimpleRNNCell(HIDDEN)
    inputs = tf.concat([part for part in (x, step_input) if part is not None], axis=1)
    keras.build(inputs.shape)
    keras.set_weights([kernel, recurrent, bias])
    _, expected = keras(inputs, state)
    for ours, theirs in zip(next_state, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_initial_bias() -> None:
    for kind, expected in (("lstm", [0, 1, 0, 0]), ("gru", [0, 0, 0]), ("rnn", [0])):
        bias = CELLS[kind]("cell", INPUT, STEP_INPUT, HIDDEN, seed=1).bias.numpy().reshape(-1, HIDDEN)
        np.testing.assert_array_equal(bias, np.repeat(expected, HIDDEN).reshape(-1, HIDDEN))


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_initial_limits_are_those_of_single_gates(kind: str) -> None:
    """Uniform in ±√(6 / (rows + columns)), where the columns are those of one gate."""
    words, step_input, hidden = 30, 20, 50
    cell = CELLS[kind]("cell", words, step_input, hidden, seed=1)
    matrices = [(cell.input, words), *((getattr(cell, field), step_input + hidden) for field in cell.LAYOUT.recurrent)]
    for weight, rows in matrices:
        for matrix in np.split(weight.matrix.numpy(), weight.matrix.shape[1] // hidden, axis=1):
            assert np.abs(matrix).max() == pytest.approx(np.sqrt(6 / (rows + hidden)), rel=0.01)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_orthogonal_and_identity_matrices(kind: str) -> None:
    def matrices(initializer: Any, seed: int = 1) -> list[Any]:
        """The matrices of the step input, and those of the state, by gate."""
        cell = CELLS[kind]("cell", INPUT, STEP_INPUT, HIDDEN, seed, initializer)
        rows = np.concatenate([getattr(cell, field).matrix.numpy() for field in cell.LAYOUT.recurrent], axis=1)
        assert rows.shape == (STEP_INPUT + HIDDEN, cell.LAYOUT.gates * HIDDEN)
        return [rows[:STEP_INPUT], *np.split(rows[STEP_INPUT:], cell.LAYOUT.gates, axis=1)]

    step_input, *states = matrices("orthogonal")
    for number, state in enumerate(states):
        np.testing.assert_allclose(state @ state.T, np.eye(HIDDEN), atol=1e-6)
        assert all(np.abs(state - other).max() > 0.1 for other in [*states[:number], np.eye(HIDDEN)])
    assert np.abs(matrices("orthogonal", seed=2)[1] - states[0]).max() > 0.1
    np.testing.assert_array_equal(matrices("glorot")[0], step_input)
    np.testing.assert_array_equal(matrices("identity")[0], step_input)
    assert all((state == np.eye(HIDDEN)).all() for state in matrices("identity")[1:])
