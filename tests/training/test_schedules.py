"""Learning rates, early stopping and clipping by value and by the global norm, by hand and in training."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import ConfigError, Training, parse_config
from seq2seq_chat.training.optimizers import Schedule, clip
from tests.conftest import Cli


def schedule(**settings: object) -> Schedule:
    return Schedule(Training(learning_rate=0.8, learning_rate_decay=0.25, **settings))


def test_rates_by_the_step() -> None:
    assert [schedule().learning_rate(step) for step in (0, 10**6)] == [0.8, 0.8]
    decaying = schedule(learning_rate_schedule="exponential", learning_rate_decay_steps=100)
    assert [decaying.learning_rate(step) for step in (0, 50, 100, 200)] == pytest.approx([0.8, 0.4, 0.2, 0.05])


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


@pytest.mark.parametrize("setting", [{"early_stopping": 2}, {"learning_rate_schedule": "plateau"}])
def test_settings_that_need_a_validation_corpus(setting: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"requires data\.validation"):
        parse_config({"name": "x", "data": {"train": "t.txt"}, "training": setting}, where="test")


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
