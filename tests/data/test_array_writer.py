from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.data import array_files as module
from seq2seq_chat.data.array_files import array_writer, id_dtype


def test_the_type_of_ids_holds_all_of_a_vocabulary() -> None:
    assert [id_dtype(size) for size in (4, 65_536, 65_537)] == ["H", "H", "i"]


@pytest.mark.parametrize(("code", "dtype"), [("H", "uint16"), ("i", "int32"), ("q", "int64")])
@pytest.mark.parametrize("count", [0, 1, 6, 1000])
def test_numpy_reads_the_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code, dtype: str, count: int) -> None:
    monkeypatch.setattr(module, "_BUFFER_ITEMS", 7)
    with array_writer(tmp_path / "a.npy", code) as flat, array_writer(tmp_path / "b.npy", code, columns=2) as rows:
        for number in range(count):
            flat.extend([number])
            rows.extend([number, 2 * number])
    assert (flat.rows, flat.items, rows.rows, rows.items) == (count, count, count, 2 * count)
    loaded = np.load(tmp_path / "a.npy")
    assert loaded.dtype == dtype
    np.testing.assert_array_equal(loaded, np.arange(count))
    loaded = np.load(tmp_path / "b.npy", mmap_mode="r")
    assert loaded.shape == (count, 2)
    np.testing.assert_array_equal(loaded[:, 1], 2 * np.arange(count))


def test_unfinished_file_is_invalid(tmp_path: Path) -> None:
    with pytest.raises(KeyError), array_writer(tmp_path / "a.npy", "q") as writer:
        writer.extend(range(5))
        raise KeyError
    with pytest.raises(ValueError):
        np.load(tmp_path / "a.npy")
