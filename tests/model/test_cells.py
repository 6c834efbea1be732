"""One step of each cell against Keras's own cell with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.model.cells import CELLS

INPUT, STEP_INPUT, HIDDEN, ROWS = 5, 3, 7, 4


def ours_and_inputs(kind: str, input_size: int, step_input_size: int) -> tuple[Any, Any, Any, list[tf.Tensor]]:
    rng = np.random.default_rng(4)
    cell = CELLS[kind]("cell", input_size, step_input_size, HIDDEN, seed=1)
    for variable in cell.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))

    def rows(units: int) -> Any:
        return tf.constant(rng.normal(size=[ROWS, units]).astype(np.float32)) if units else None

    return cell, rows(input_size), rows(step_input_size), [rows(HIDDEN) for _ in cell.STATE._fields]


@pytest.mark.parametrize(("input_size", "step_input_size"), [(INPUT, STEP_INPUT), (INPUT, 0), (0, STEP_INPUT)])
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_a_step_equals_that_of_keras(kind: str, input_size: int, step_input_size: int) -> None:
    cell, x, more, state = ours_and_inputs(kind, input_size, step_input_size)
    state_after = cell(cell.project_inputs(x), more, cell.STATE(*state))

    # Keras concatenates x and the step input; our recurrent matrix has the rows of the step input above those of h
    of_inputs = cell.input.matrix.numpy() if input_size else np.zeros([0, cell.GATES * HIDDEN], np.float32)
    of_recurrent = cell.recurrent.matrix.numpy()
    if kind == "gru":
        of_recurrent = np.concatenate([of_recurrent, cell.candidate.matrix.numpy()], axis=1)
    kernel, recurrent = np.concatenate([of_inputs, of_recurrent[:step_input_size]]), of_recurrent[step_input_size:]
    bias = cell.bias.numpy()
    if kind == "lstm":  # ours: i, f, o, g; Keras: i, f, g, o
        keras = tf.keras.layers.LSTMCell(HIDDEN)
        kernel, recurrent, bias = (
            np.concatenate([np.split(part, 4, axis=-1)[gate] for gate in (0, 1, 3, 2)], axis=-1)
            for part in (kernel, recurrent, bias)
        )
    elif kind == "gru":  # z renews where Keras's keeps, and sigma(-a) = 1 - sigma(a)
        keras = tf.keras.layers.GRUCell(HIDDEN, reset_after=False)
        kernel, recurrent, bias = (
            np.concatenate([-part[..., :HIDDEN], part[..., HIDDEN:]], axis=-1) for part in (kernel, recurrent, bias)
        )
    else:
        keras = tf.keras.layers.SimpleRNNCell(HIDDEN)
    inputs = tf.concat([part for part in (x, more) if part is not None], axis=1)
    keras.build(inputs.shape)
    keras.set_weights([kernel, recurrent, bias])
    _, expected = keras(inputs, state)
    for ours, theirs in zip(state_after, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_initial_bias() -> None:
    for kind, expected in (("lstm", [0, 1, 0, 0]), ("gru", [0, 0, 0]), ("rnn", [0])):
        bias = CELLS[kind]("cell", INPUT, STEP_INPUT, HIDDEN, seed=1).bias.numpy().reshape(-1, HIDDEN)
        np.testing.assert_array_equal(bias, np.repeat(expected, HIDDEN).reshape(-1, HIDDEN))
