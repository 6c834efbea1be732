"""Optimizers by their equations, clipping, learning rates, early stopping and low precision."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ml_dtypes import bfloat16

from seq2seq_chat.architecture.variables import slots_per_parameter
from seq2seq_chat.config import Training
from seq2seq_chat.model.deferred import DeferredGradients, matmul, matmul_transposed
from seq2seq_chat.model.variables import load_variables, save_variables
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.training import optimizers
from seq2seq_chat.training.optimizers import Schedule, build_optimizer, clip, loss_scale_variables, why_unavailable
from tests.conftest import Cli
from tests.training.test_step import configuration, make_step, random_batch


def schedule(**settings: object) -> Schedule:
    return Schedule(Training(learning_rate=0.8, learning_rate_decay=0.25, **settings))


def test_rates_by_the_step() -> None:
    assert [schedule().learning_rate(step) for step in (0, 10**6)] == [0.8, 0.8]
    decaying = schedule(learning_rate_schedule="exponential", learning_rate_decay_steps=100)
    assert [decaying.learning_rate(step) for step in (0, 50, 100, 200)] == pytest.approx([0.8, 0.4, 0.2, 0.05])
    rising = schedule(learning_rate_schedule="inverse_sqrt", warmup_steps=100)
    assert [rising.learning_rate(step) for step in (0, 49, 99, 399)] == pytest.approx([0.008, 0.4, 0.8, 0.4])
    both = schedule(learning_rate_schedule="linear", steps=100, warmup_steps=10)
    assert [both.learning_rate(step) for step in (0, 4, 50)] == pytest.approx([0.08, 0.4 * 0.96, 0.4])
    falling = schedule(learning_rate_schedule="linear", steps=100)
    assert [falling.learning_rate(step) for step in (0, 25, 99, 100, 101)] == pytest.approx([0.8, 0.6, 0.008, 0, 0])


def test_a_rate_that_drops_at_plateaus() -> None:
    decaying = schedule(learning_rate_schedule="plateau", learning_rate_patience=2)
    rates = []
    for best in (True, False, True, False, False, False, False, False, True):
        decaying.record_validation(best)
        rates.append(decaying.learning_rate(0))
    assert rates == pytest.approx([0.8, 0.8, 0.8, 0.8, 0.2, 0.2, 0.05, 0.05, 0.05])
    resumed = schedule(learning_rate_schedule="plateau", learning_rate_patience=2)
    resumed.restore(json.loads(json.dumps(decaying.state)))
    assert resumed.learning_rate(0) == decaying.learning_rate(0)


def test_clipping_by_value() -> None:
    """Repeated rows of a sparse gradient are summed first: 0.4 + 0.4 is more than 0.5."""
    sparse = tf.IndexedSlices(tf.constant([[0.4], [0.1], [0.4]]), tf.constant([2, 0, 2]), tf.constant([3, 1]))
    (dense, rows), norm = clip([tf.constant([[3.0, -0.2], [-4.0, 0.5]]), sparse], 0.5, "value")
    np.testing.assert_allclose(dense, [[0.5, -0.2], [-0.5, 0.5]])
    np.testing.assert_allclose(tf.convert_to_tensor(rows), [[0.1], [0.0], [0.5]])
    assert float(norm) == pytest.approx(np.sqrt(9 + 0.04 + 16 + 0.25 + 0.64 + 0.01))


def lines(run: Path, kind: str) -> list[dict[str, Any]]:
    metrics = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [line for line in metrics if line["kind"] == kind]


def test_training_uses_the_rate_and_stops_early(cli: Cli, tiny_config: Path, tmp_path: Path) -> None:
    """With a rate this high, the validation loss stops improving after a while."""
    settings = {"learning_rate": 0.5, "learning_rate_schedule": "plateau", "learning_rate_patience": 1}
    settings |= {"early_stopping": 2, "validate_every": 2, "steps": 200, "log_every": 1, "sample_replies": 0}
    changes = [part for key, value in settings.items() for part in ("--set", f"training.{key}={value}")]
    result = cli("train", tiny_config, "--results", tmp_path, *changes)
    assert result.status == 0, result
    assert "stopped early: no improvement in 2 validations" in result.out
    run = Path(result.out.splitlines()[-1])
    losses = [line["loss"] for line in lines(run, "validation")]
    assert losses.index(min(losses)) == len(losses) - 3
    bests = [loss == min(losses[: number + 1]) for number, loss in enumerate(losses)]
    rate, expected = 0.5, []
    for best in bests:
        expected += [rate, rate]
        rate = rate if best else rate / 2
    assert [line["learning_rate"] for line in lines(run, "train")] == pytest.approx(expected)
    again = cli("train", "--resume", run)
    assert "already trained" in again.out
    assert json.loads((run / "end.json").read_text(encoding="utf-8"))["state"] == "finished"


def sparse(rows: list[int], values: list[list[float]]) -> tf.IndexedSlices:
    return tf.IndexedSlices(tf.constant(values), tf.constant(rows), tf.constant([5, len(values[0])]))


def test_the_norm_of_repeated_rows_is_that_of_their_sum() -> None:
    """Row 0 adds up to 3 - 3 = 0, row 1 to 1 + 2 = 3, and the dense gradient is 4: the norm is 5."""
    gradients = [sparse([0, 1, 0, 1], [[3.0], [1.0], [-3.0], [2.0]]), tf.constant([4.0])]
    unclipped, norm = clip(gradients, None)
    assert float(norm) == pytest.approx(5.0)
    np.testing.assert_allclose(unclipped[1], [4.0])
    clipped, norm = clip(gradients, 1.0)
    assert float(norm) == pytest.approx(5.0)
    np.testing.assert_allclose(clipped[1], [0.8])
    np.testing.assert_allclose(tf.convert_to_tensor(clipped[0])[:2], [[0.0], [0.6]], atol=1e-7)


def test_small_gradients_do_not_change() -> None:
    gradients, norm = clip([tf.constant([0.3, 0.4])], 10.0)
    assert float(norm) == pytest.approx(0.5)
    np.testing.assert_allclose(gradients[0], [0.3, 0.4])
    gradients, norm = clip([tf.zeros([3])], 10.0)
    assert float(norm) == 0.0
    assert not np.any(gradients[0])


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
    monkeypatch.setattr(optimizers, "processor_flags", lambda: flags)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: [Gpu()] if capability else [])
    details = {"compute_capability": capability, "device_name": "a GPU"}
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda _: details)
    unavailable = why_unavailable(kind)
    assert unavailable is None if reason is None else reason in (unavailable or "")
    if reason:
        with pytest.raises(UserError, match=reason):
            optimizers.ensure_available(kind)


def test_only_float16_scales_the_loss() -> None:
    for kind, variables in (("float32", 0), ("bfloat16", 0), ("float16", 2)):
        assert len(loss_scale_variables(build_optimizer(configuration(precision=kind).training))) == variables


def by_equations(optimizer: str, rate: float, momentum: float, gradients: list[np.ndarray]) -> np.ndarray:
    """What each optimizer subtracts from a variable that starts at zero, as their papers and Keras define them."""
    total, velocity, square, other = np.zeros((4, *gradients[0].shape))
    if optimizer == "adagrad":
        square += 0.1
    for t, g in enumerate(gradients, start=1):
        if optimizer == "sgd":
            update = rate * g
        elif optimizer == "rmsprop":
            square = 0.9 * square + 0.1 * g**2
            update = rate * g / np.sqrt(square + 1e-7)
        elif optimizer == "adagrad":
            square = square + g**2
            update = rate * g / np.sqrt(square)
        elif optimizer == "adadelta":  # other: mean square of the updates
            square = 0.95 * square + 0.05 * g**2
            update = g * np.sqrt(other + 1e-7) / np.sqrt(square + 1e-7)
            other = 0.95 * other + 0.05 * update**2
            update = rate * update
        else:  # Adam; other: mean of the gradients
            other, square = 0.9 * other + 0.1 * g, 0.999 * square + 0.001 * g**2
            update = rate * (other / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-7)
        velocity = momentum * velocity + update
        total = total + velocity
    return total


@pytest.mark.parametrize(
    ("optimizer", "momentum"),
    [("adagrad", 0.0), ("adadelta", 0.0), ("adam", 0.0), *((o, m) for o in ("rmsprop", "sgd") for m in (0.0, 0.5))],
)
def test_updates_equal_the_equations(optimizer: str, momentum: float) -> None:
    """Three steps with different gradients: the state of the optimizer takes part in the second and the third."""
    gradients = [np.array(g) for g in ([1.0, -2.0, 0.3], [0.5, 1.0, 0.3], [-3.0, 0.1, 0.3])]
    settings = configuration(optimizer=optimizer, learning_rate=0.4, momentum=momentum).training
    rule = build_optimizer(settings)
    variable, table = tf.Variable(tf.zeros(3)), tf.Variable(tf.zeros([4, 3]))
    for gradient in gradients:
        dense = tf.constant(gradient, tf.float32)
        rule.apply_gradients([(dense, variable), (tf.IndexedSlices(dense[tf.newaxis], [2], [4, 3]), table)])
    assert len(rule.variables()) == 1 + 2 * slots_per_parameter(settings), "the step, and the slots of both variables"
    expected = by_equations(optimizer, 0.4, momentum, gradients)
    np.testing.assert_allclose(-variable.numpy(), expected, rtol=1e-4)
    np.testing.assert_allclose(-table.numpy(), np.outer([0, 0, 1, 0], expected), rtol=1e-4)
