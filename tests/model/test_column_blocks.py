from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.model.column_blocks import BLOCK, MAX_ROWS, column_blocks, matmul_few_rows
from seq2seq_chat.model.seq2seq import Seq2Seq


@pytest.fixture
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda *_: [])
    monkeypatch.setattr("seq2seq_chat.model.column_blocks.MIN_SIZE", 1)


@pytest.mark.usefixtures("every_size")
@pytest.mark.parametrize("rows", [0, 1, 2, MAX_ROWS, MAX_ROWS + 1])
@pytest.mark.parametrize("outputs", [1, BLOCK, 3 * BLOCK - 1])
@pytest.mark.parametrize("compiled", [False, True])
def test_products_equal_numpy(rows: int, outputs: int, compiled: bool) -> None:
    rng = np.random.default_rng(rows)
    x, matrix, bias = (rng.normal(size=shape).astype(np.float32) for shape in ([rows, 7], [7, outputs], [outputs]))
    blocks = column_blocks(tf.constant(matrix))
    assert blocks is not None
    product = tf.function(matmul_few_rows) if compiled else matmul_few_rows
    np.testing.assert_allclose(product(x, tf.constant(matrix), blocks), x @ matrix, atol=1e-5)
    np.testing.assert_allclose(product(x, tf.constant(matrix), blocks, bias), x @ matrix + bias, atol=1e-5)


@pytest.mark.usefixtures("every_size")
def test_a_step_multiplies_few_rows_by_the_copies() -> None:
    """Copies that differ from their matrices give other results for few rows, and the same for many."""
    model = Seq2Seq(Model(hidden_size=8, embedding_size=4, projection_size=6), 30, seed=1)
    weights = model.step_weights()
    names = {"decoder/layer0/recurrent:0", "decoder/attention/query:0", "decoder/combine/output:0"}
    assert set(weights.blocks) == names | {"output/projection:0", "output/words:0"}
    for name in weights.blocks:
        changed = weights._replace(blocks=weights.blocks | {name: weights.blocks[name] + 1.0})
        for rows, differs in ((1, False), (2, True), (MAX_ROWS, True), (MAX_ROWS + 1, False)):
            source, lengths = tf.fill([rows, 3], 4), tf.fill([rows], 3)
            state, memory = model.start_search(source, lengths)
            state = tf.nest.map_structure(lambda part: part + 0.1, state)  # h̃ is zero before the first word
            logits, expected = (
                model.step(tf.fill([rows], 5), state, memory, each)[0].numpy() for each in (changed, weights)
            )
            assert (np.abs(logits - expected).max() > 1e-3) == differs, (name, rows)


def test_small_matrices_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda *_: [])
    assert column_blocks(tf.zeros([1024, 1023])) is None
    assert column_blocks(tf.zeros([1024, 1024])).shape == (22, 1024, BLOCK)  # type: ignore[union-attr]
