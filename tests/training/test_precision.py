"""Products in low precision: operands are rounded, weights are not, and overflow is handled."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ml_dtypes import bfloat16

from seq2seq_chat.model.deferred import DeferredGradients, matmul, matmul_transposed
from seq2seq_chat.model.variables import load_variables, save_variables
from seq2seq_chat.training import optimizers as precision
from seq2seq_chat.training.optimizers import (
    PrecisionUnavailable,
    build_optimizer,
    ensure_available,
    loss_scale_variables,
    why_unavailable,
)
from tests.training.test_step import configuration, make_step, random_batch


def rounded(x: np.ndarray) -> np.ndarray:
    return x.astype(bfloat16).astype(np.float64)


def test_products_round_their_operands_and_keep_float32_around_them() -> None:
    rng = np.random.default_rng(0)
    x, w, rows, dy = (rng.normal(size=s).astype(np.float32) for s in [(7, 5), (5, 3), (4, 3), (7, 4)])
    matrix, table = tf.Variable(w), tf.Variable(rows)
    with DeferredGradients(tf.bfloat16) as tape:
        y = matmul(tf.constant(x), matrix)
        z = matmul_transposed(y, table)
        loss = tf.reduce_sum(z * dy)
    d_matrix, d_table = tape.gradient(loss, [matrix, table])
    assert {t.dtype for t in (y, z, d_matrix, d_table)} == {tf.float32}
    # A result is rounded to eight bits. Without instructions for bfloat16, so are its partial sums.
    half, atol = (2.0**-8, 1e-6) if not why_unavailable("bfloat16") else (2.0**-6, 2.0**-6)
    expected_y = rounded(x) @ rounded(w)
    np.testing.assert_allclose(y, expected_y, rtol=half, atol=atol)
    np.testing.assert_allclose(z, rounded(y.numpy()) @ rounded(rows).T, rtol=half, atol=atol)
    np.testing.assert_allclose(d_table, rounded(dy).T @ rounded(y.numpy()), rtol=half, atol=atol)
    expected = rounded(x).T @ rounded(rounded(dy) @ rounded(rows))
    np.testing.assert_allclose(d_matrix, expected, rtol=2 * half, atol=2 * half)


@pytest.mark.parametrize("sampled", [8, None])
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_gradients_equal_those_of_float32_up_to_rounding(kind: str, sampled: int | None) -> None:
    def gradients(precision: str) -> list[np.ndarray]:
        _, step = make_step(configuration(precision=precision, sampled_softmax=sampled))
        computed = step.gradients(random_batch(1), tf.constant(0, tf.int64))[1]
        return [tf.convert_to_tensor(gradient).numpy() for gradient in computed]

    exact, rounded_gradients = gradients("float32"), gradients(kind)
    flat, near = (np.concatenate([g.ravel() for g in part]) for part in (exact, rounded_gradients))
    assert np.any(flat != near)  # otherwise nothing was computed in low precision
    assert np.linalg.norm(flat - near) < 0.02 * np.linalg.norm(flat)


def test_updates_below_the_precision_of_the_products_are_kept() -> None:
    model, step = make_step(configuration(precision="bfloat16", optimizer="sgd", learning_rate=1e-3))
    assert {variable.dtype for variable in model.trainable_variables} == {tf.float32}
    matrix = model.encoder.cells[0].recurrent.matrix
    before = matrix.numpy()
    step(random_batch(1), 0)
    change = matrix.numpy() - before
    assert np.mean(change != 0) > 0.9
    assert np.mean(matrix.numpy().astype(bfloat16) != before.astype(bfloat16)) < 0.05


def test_a_step_that_overflows_is_skipped_and_halves_the_scale() -> None:
    config = configuration(precision="float16", learning_rate=0.1)
    model, step = make_step(config)
    scale, good_steps = loss_scale_variables(step._optimizer)
    scale.assign(2.0**40)
    before = [variable.numpy() for variable in model.trainable_variables]
    result = step(random_batch(1), 0)
    assert scale.numpy() == 2.0**39
    assert np.isfinite(result.loss.nats) and np.isfinite(result.gradient_norm)
    for variable, old in zip(model.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(variable, old)
    scale.assign(2.0**10)
    step(random_batch(1), 0)
    assert good_steps.numpy() == 1
    assert any(np.any(v.numpy() != old) for v, old in zip(model.trainable_variables, before, strict=True))


def test_training_is_resumed_in_another_precision(tmp_path: Path) -> None:
    config = configuration(precision="float16")
    model, step = make_step(config)
    optimizer = step._optimizer
    save_variables(tmp_path / "float32.npz", [*model.trainable_variables, *optimizer.variables()], {})
    scale, good_steps = loss_scale_variables(optimizer)
    scale.assign(64.0)
    load_variables(tmp_path / "float32.npz", model.trainable_variables, optional=[scale, good_steps])
    assert scale.numpy() == 64.0  # there was none in the file
    save_variables(tmp_path / "float16.npz", [*model.trainable_variables, scale, good_steps], {})
    scale.assign(2.0)
    load_variables(tmp_path / "float16.npz", model.trainable_variables, optional=[scale, good_steps])
    assert scale.numpy() == 64.0
    load_variables(tmp_path / "float16.npz", model.trainable_variables)


class Gpu:
    name = "gpu"


@pytest.mark.parametrize(
    ("kind", "flags", "capability", "reason"),
    [
        ("float32", set(), None, None),
        ("bfloat16", {"avx512_bf16"}, None, None),
        ("bfloat16", {"amx_bf16"}, None, None),
        ("bfloat16", {"avx512f"}, None, "needs a CPU with avx512_bf16"),
        ("float16", {"avx512_bf16"}, None, "precision=bfloat16"),
        ("float16", {"avx512f"}, None, "precision=float32"),
        ("float16", set(), (7, 0), None),
        ("float16", set(), (6, 1), "compute capability 7.0, but a GPU has 6.1"),
        ("bfloat16", {"avx512_bf16"}, (7, 5), "compute capability 8.0"),
        ("bfloat16", set(), (9, 0), None),
    ],
)
def test_unavailable_precisions_are_rejected_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, kind: str, flags: set[str], capability: Any, reason: str | None
) -> None:
    monkeypatch.setattr(precision, "processor_flags", lambda: flags)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: [Gpu()] if capability else [])
    details = {"compute_capability": capability, "device_name": "a GPU"}
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda _: details)
    if reason is None:
        ensure_available(kind)
    else:
        with pytest.raises(PrecisionUnavailable, match=reason):
            ensure_available(kind)


def test_only_float16_scales_the_loss() -> None:
    for kind, variables in (("float32", 0), ("bfloat16", 0), ("float16", 2)):
        assert len(loss_scale_variables(build_optimizer(configuration(precision=kind).training))) == variables
