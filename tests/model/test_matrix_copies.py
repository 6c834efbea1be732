from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.model import matrix_copies
from seq2seq_chat.model.deferred import DeferredGradients
from seq2seq_chat.model.matrix_copies import BLOCK, MAX_ROWS, PADDING, MatrixCopies, copy_matrix, matmul_copies
from seq2seq_chat.model.seq2seq import SearchWeights, Seq2Seq


@pytest.fixture(params=[False, True], ids=["AVX-512", "AVX2"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether copies are those for AVX2, of matrices of every size."""
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda *_: [])
    monkeypatch.setattr(matrix_copies, "uses_avx2_kernels", lambda: request.param)
    monkeypatch.setattr(matrix_copies, "MIN_SIZE", 1)
    monkeypatch.setattr(matrix_copies, "CONFLICTING", 1)
    return bool(request.param)


@pytest.mark.parametrize("rows", [0, 1, 2, MAX_ROWS, MAX_ROWS + 1])
@pytest.mark.parametrize("outputs", [1, BLOCK, 3 * BLOCK - 1])
@pytest.mark.parametrize("compiled", [False, True])
def test_products_equal_numpy(kernels: bool, rows: int, outputs: int, compiled: bool) -> None:
    rng = np.random.default_rng(rows)
    x, matrix, bias = (rng.normal(size=shape).astype(np.float32) for shape in ([rows, 7], [7, outputs], [outputs]))
    copies = copy_matrix(tf.constant(matrix))
    assert copies is not None and isinstance(copies.padded, tuple) != kernels
    product = tf.function(matmul_copies) if compiled else matmul_copies
    for part in (copies, copies._replace(blocks=()), copies._replace(padded=())):
        np.testing.assert_allclose(product(x, tf.constant(matrix), part), x @ matrix, atol=1e-5)
        np.testing.assert_allclose(product(x, tf.constant(matrix), part, bias), x @ matrix + bias, atol=1e-5)


@pytest.mark.parametrize("projects_words", [False, True], ids=["projected-once", "projected-at-each-step"])
def test_a_search_multiplies_few_rows_by_the_copies(
    kernels: bool, monkeypatch: pytest.MonkeyPatch, projects_words: bool
) -> None:
    """Copies that differ from their matrices give other results for the rows that they are used for."""
    model = Seq2Seq(Model(hidden_size=8, embedding_size=4, projection_size=6), 30, seed=1)
    if projects_words:
        monkeypatch.setattr("seq2seq_chat.model.seq2seq.MAX_PROJECTED_BYTES", 0)
    weights = model.search_weights()
    names = {"decoder/layer0/recurrent:0", "decoder/attention/query:0", "decoder/combine/output:0"}
    names |= {"encoder/layer0/recurrent:0", "output/projection:0", "output/words:0"}
    assert set(weights.copies) == (names | {"decoder/layer0/input:0"} if projects_words else names)
    used = {"blocks": {2, MAX_ROWS}, "padded": {1, MAX_ROWS + 1}} if kernels else {"blocks": {2, MAX_ROWS}}
    for name, copies in weights.copies.items():
        for kind, sizes in used.items():
            copy = copies._replace(**{kind: getattr(copies, kind) + 1.0})
            changed = weights._replace(copies=weights.copies | {name: copy})
            for rows in (1, 2, MAX_ROWS, MAX_ROWS + 1):
                source, lengths = tf.fill([rows, 3], 4), tf.fill([rows], 3)
                logits, expected = (_logits(model, source, lengths, each) for each in (changed, weights))
                assert (np.abs(logits - expected).max() > 1e-3) == (rows in sizes), (name, kind, rows)


def _logits(model: Seq2Seq, source: tf.Tensor, lengths: tf.Tensor, weights: SearchWeights) -> np.ndarray:
    state, memory = model.start_search(source, lengths, weights)
    state = tf.nest.map_structure(lambda part: part + 0.1, state)  # h̃ is zero before the first word
    return model.step(tf.fill(tf.shape(lengths), 5), state, memory, weights)[0].numpy()


def test_a_loop_multiplies_by_padded_copies(kernels: bool) -> None:
    """Products and gradients are those of numpy, and neither reads the matrix where it has a padded copy."""
    rng = np.random.default_rng(1)
    x, matrix, weights = (rng.normal(size=shape).astype(np.float32) for shape in ([5, 7], [7, 9], [5, 9]))
    variable, rows = tf.Variable(matrix), tf.constant(x)
    with DeferredGradients() as tape:
        tape.watch([rows])
        product = tape.matmul(rows, variable)
        loss = tf.reduce_sum(weights * product)
    widths = {part.shape[1] for part in (tape.constant(variable)._padded, tape.constant(variable)._padded_transposed)}
    assert widths == ({9 + PADDING, 7 + PADDING} if kernels else {9, 7})
    np.testing.assert_allclose(product, x @ matrix, atol=1e-5)
    (gradient,) = tape.backward(loss, [rows])
    np.testing.assert_allclose(gradient, weights @ matrix.T, atol=1e-5)


@pytest.mark.parametrize(
    ("avx2", "gpus", "shape", "blocks", "padded"),
    [
        (False, [], (1024, 1023), None, None),  # small
        (False, [], (1024, 1024), (-(-1024 // BLOCK), 1024, BLOCK), None),
        (True, [], (100, 500), None, None),  # rows that do not compete for cache lines
        (True, [], (100, 1024), None, (100, 1024 + PADDING)),
        (True, ["GPU"], (1024, 1024), None, None),
    ],
)
def test_what_is_copied(
    monkeypatch: pytest.MonkeyPatch, avx2: bool, gpus: list[str], shape: tuple[int, ...], blocks: Any, padded: Any
) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda *_: gpus)
    monkeypatch.setattr(matrix_copies, "uses_avx2_kernels", lambda: avx2)
    assert matrix_copies.needs_padding(tf.zeros(shape)) == (padded is not None)
    copies = copy_matrix(tf.zeros(shape)) or MatrixCopies()
    for copy, expected in ((copies.blocks, blocks), (copies.padded, padded)):
        assert (None if isinstance(copy, tuple) else copy.shape) == expected
