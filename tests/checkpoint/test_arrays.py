"""Checkpoint files: intact, damaged, and of another model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.checkpoint.arrays import DamagedCheckpoint, MismatchError, read_arrays
from seq2seq_chat.model.variables import load_variables, save_variables


@pytest.fixture
def variables() -> list[tf.Variable]:
    rng = np.random.default_rng(0)
    return [
        tf.Variable(rng.standard_normal([7, 5]).astype(np.float32), name="encoder/input"),
        tf.Variable(3, dtype=tf.int64, name="iter"),
    ]


def zeros_like(variables: list[tf.Variable]) -> list[tf.Variable]:
    return [tf.Variable(tf.zeros_like(v), name=v.name.split(":")[0]) for v in variables]


def test_variables_and_metadata_are_restored(tmp_path: Path, variables: list[tf.Variable]) -> None:
    file = tmp_path / "checkpoints" / "one.npz"
    save_variables(file, variables, {"step": 12, "best_loss": 1.5})
    loaded = zeros_like(variables)
    assert load_variables(file, loaded) == {"step": 12, "best_loss": 1.5}
    for saved, restored in zip(variables, loaded, strict=True):
        np.testing.assert_array_equal(saved.numpy(), restored.numpy())
    assert [entry.name for entry in file.parent.iterdir()] == ["one.npz"]
    np.testing.assert_array_equal(np.load(file)["encoder/input"], variables[0].numpy())


def test_truncated_file_is_damaged(tmp_path: Path, variables: list[tf.Variable]) -> None:
    file = tmp_path / "one.npz"
    save_variables(file, variables, {"step": 1})
    intact = file.read_bytes()
    for sixteenth in range(16):
        file.write_bytes(intact[: len(intact) * sixteenth // 16])
        with pytest.raises(DamagedCheckpoint):
            load_variables(file, zeros_like(variables))


def test_flipped_bit_in_an_array_is_detected_and_nothing_is_assigned(
    tmp_path: Path, variables: list[tf.Variable]
) -> None:
    file = tmp_path / "one.npz"
    save_variables(file, variables, {"step": 1})
    intact = bytearray(file.read_bytes())
    offset = intact.find(variables[0].numpy().tobytes())
    assert offset > 0
    intact[offset + 40] ^= 4
    file.write_bytes(intact)
    loaded = zeros_like(variables)
    with pytest.raises(DamagedCheckpoint, match="CRC"):
        load_variables(file, loaded)
    assert not np.any(loaded[0].numpy())


def test_weights_of_another_model_are_rejected(tmp_path: Path, variables: list[tf.Variable]) -> None:
    file = tmp_path / "one.npz"
    save_variables(file, variables, {"step": 1})
    with pytest.raises(MismatchError, match="encoder/input is 7 × 5 but the model's is 9 × 5"):
        load_variables(file, [tf.Variable(tf.zeros([9, 5]), name="encoder/input")])
    with pytest.raises(MismatchError, match="has no variable encoder/output"):
        load_variables(file, [tf.Variable(0.0, name="encoder/output")])


def test_any_flipped_bit_is_detected_or_harmless(tmp_path: Path) -> None:
    """Every bit, including those of names, sizes, flags and headers, which make zipfile and NumPy fail in many ways."""
    path, damaged = tmp_path / "intact.npz", tmp_path / "damaged.npz"
    save_variables(path, [tf.Variable([1.5, -2.0], name="w")], {"step": 3})
    intact = path.read_bytes()
    expected_arrays, expected_metadata = read_arrays(path, ["w"])
    outcomes = {"damaged": 0, "mismatch": 0, "harmless": 0}
    for bit in range(8 * len(intact)):
        raw = bytearray(intact)
        raw[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(raw)
        try:
            arrays, metadata = read_arrays(damaged, ["w"])
        except DamagedCheckpoint:
            outcomes["damaged"] += 1
        except MismatchError:
            outcomes["mismatch"] += 1
        else:
            outcomes["harmless"] += 1  # dates, permissions and the like
            np.testing.assert_array_equal(arrays["w"], expected_arrays["w"], strict=True)
            assert metadata == expected_metadata
    assert outcomes["damaged"] > 0.5 * 8 * len(intact)
    assert outcomes["mismatch"] < 10  # a mismatch stops a training run that could resume from the previous checkpoint
