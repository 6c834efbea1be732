"""Checkpoint files: whole, damaged, and of another model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.training.checkpoints import DamagedCheckpoint, MismatchError, load_variables, save_variables


@pytest.fixture
def variables() -> list[tf.Variable]:
    rng = np.random.default_rng(0)
    return [
        tf.Variable(rng.standard_normal([7, 5]).astype(np.float32), name="encoder/input"),
        tf.Variable(3, dtype=tf.int64, name="iter"),
    ]


def zeros_like(variables: list[tf.Variable]) -> list[tf.Variable]:
    return [tf.Variable(tf.zeros_like(v), name=v.name.split(":")[0]) for v in variables]


def test_variables_and_metadata_come_back(tmp_path: Path, variables: list[tf.Variable]) -> None:
    file = tmp_path / "checkpoints" / "one.npz"
    save_variables(file, variables, {"step": 12, "best_loss": 1.5})
    loaded = zeros_like(variables)
    assert load_variables(file, loaded) == {"step": 12, "best_loss": 1.5}
    for was, now in zip(variables, loaded, strict=True):
        np.testing.assert_array_equal(was.numpy(), now.numpy())
    assert [entry.name for entry in file.parent.iterdir()] == ["one.npz"]
    np.testing.assert_array_equal(np.load(file)["encoder/input"], variables[0].numpy())


def test_a_file_cut_anywhere_is_damaged(tmp_path: Path, variables: list[tf.Variable]) -> None:
    file = tmp_path / "one.npz"
    save_variables(file, variables, {"step": 1})
    whole = file.read_bytes()
    for sixteenth in range(16):
        file.write_bytes(whole[: len(whole) * sixteenth // 16])
        with pytest.raises(DamagedCheckpoint):
            load_variables(file, zeros_like(variables))


def test_a_flipped_bit_in_an_array_is_found_and_nothing_is_assigned(
    tmp_path: Path, variables: list[tf.Variable]
) -> None:
    file = tmp_path / "one.npz"
    save_variables(file, variables, {"step": 1})
    whole = bytearray(file.read_bytes())
    place = whole.find(variables[0].numpy().tobytes())
    assert place > 0
    whole[place + 40] ^= 4
    file.write_bytes(whole)
    loaded = zeros_like(variables)
    with pytest.raises(DamagedCheckpoint, match="CRC"):
        load_variables(file, loaded)
    assert not np.any(loaded[0].numpy())


def test_weights_of_another_model_are_told_apart(tmp_path: Path, variables: list[tf.Variable]) -> None:
    file = tmp_path / "one.npz"
    save_variables(file, variables, {"step": 1})
    with pytest.raises(MismatchError, match="encoder/input is 7 × 5 but the model's is 9 × 5"):
        load_variables(file, [tf.Variable(tf.zeros([9, 5]), name="encoder/input")])
    with pytest.raises(MismatchError, match="has no variable encoder/output"):
        load_variables(file, [tf.Variable(0.0, name="encoder/output")])
