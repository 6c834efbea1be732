"""One step of each cell against Keras's own cell with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.model.cells import CELLS

KNOWN, FED, HIDDEN, ROWS = 5, 3, 7, 4


def ours_and_inputs(kind: str, known: int, fed: int) -> tuple[Any, Any, Any, list[tf.Tensor]]:
    rng = np.random.default_rng(4)
    cell = CELLS[kind]("cell", known, fed, HIDDEN, seed=1)
    for variable in cell.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))

    def rows(units: int) -> Any:
        return tf.constant(rng.normal(size=[ROWS, units]).astype(np.float32)) if units else None

    return cell, rows(known), rows(fed), [rows(HIDDEN) for _ in cell.STATE._fields]


@pytest.mark.parametrize(("known", "fed"), [(KNOWN, FED), (KNOWN, 0), (0, FED)])
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_a_step_is_that_of_keras(kind: str, known: int, fed: int) -> None:
    cell, x, more, state = ours_and_inputs(kind, known, fed)
    found = cell(cell.prepare(x), more, cell.STATE(*state))

    # Keras has one input, [x; fed], and matrices of its own order; ours have the rows of fed above those of h
    of_x = cell.input.matrix.numpy() if known else np.zeros([0, cell.GATES * HIDDEN], np.float32)
    of_rest = cell.recurrent.matrix.numpy()
    if kind == "gru":
        of_rest = np.concatenate([of_rest, cell.candidate.matrix.numpy()], axis=1)
    kernel, recurrent = np.concatenate([of_x, of_rest[:fed]]), of_rest[fed:]
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
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_an_lstm_begins_by_remembering_and_all_others_without_bias() -> None:
    for kind, expected in (("lstm", [0, 1, 0, 0]), ("gru", [0, 0, 0]), ("rnn", [0])):
        bias = CELLS[kind]("cell", KNOWN, FED, HIDDEN, seed=1).bias.numpy().reshape(-1, HIDDEN)
        np.testing.assert_array_equal(bias, np.repeat(expected, HIDDEN).reshape(-1, HIDDEN))
