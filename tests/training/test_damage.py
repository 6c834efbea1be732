"""A checkpoint with any one bit wrong is never taken for another one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from seq2seq_chat.training.checkpoints import DamagedCheckpoint, MismatchError, read_arrays, save_variables


def test_any_flipped_bit_is_found_or_does_no_harm(tmp_path: Path) -> None:
    """Every bit: also those of names, sizes, flags and headers, at which zipfile and NumPy fail in many ways."""
    path, damaged = tmp_path / "sound.npz", tmp_path / "damaged.npz"
    save_variables(path, [tf.Variable([1.5, -2.0], name="w")], {"step": 3})
    sound = path.read_bytes()
    expected, metadata = read_arrays(path, ["w"])
    found = {"damaged": 0, "mismatch": 0, "harmless": 0}
    for bit in range(8 * len(sound)):
        raw = bytearray(sound)
        raw[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(raw)
        try:
            arrays, told = read_arrays(damaged, ["w"])
        except DamagedCheckpoint:
            found["damaged"] += 1
        except MismatchError:
            found["mismatch"] += 1
        else:
            found["harmless"] += 1  # dates, permissions and the like
            np.testing.assert_array_equal(arrays["w"], expected["w"], strict=True)
            assert told == metadata
    assert found["damaged"] > 0.5 * 8 * len(sound)
    assert found["mismatch"] < 10  # such a file would stop a training that could go on from the checkpoint before
