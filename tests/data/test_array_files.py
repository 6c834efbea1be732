"""Array files: written piece by piece, and checked where they are read."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.data import cache, encoding
from seq2seq_chat.data.cache import CheckedArray, StoredArray
from seq2seq_chat.data.encoding import array_writer, id_dtype
from seq2seq_chat.system.errors import UserError


def stored(array: np.ndarray, checksums: list[int] | None = None) -> StoredArray:
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "array.npy"), array)
        return StoredArray(Path(folder, "array.npy"), checksums)


def checked(array: np.ndarray, damaged: dict[int, int]) -> tuple[CheckedArray, list[Any]]:
    """An array with other values at some rows, and the calls of its repair."""
    repairs: list[Any] = []
    intact, other = stored(array), array.copy()
    for row, value in damaged.items():
        other[row] = value

    def repair(found: StoredArray) -> StoredArray:
        repairs.append(found)
        return intact

    return CheckedArray(stored(other, intact.checksums), repair), repairs


def indices(length: int) -> st.SearchStrategy[Any]:
    places = st.integers(-length, length - 1)
    bounds = st.none() | st.integers(-2 * length, 2 * length)
    return st.one_of(
        places,
        st.slices(length),
        st.builds(slice, bounds, bounds),
        st.lists(st.integers(0, length - 1)).map(lambda rows: np.array(rows, np.int64)),
        st.lists(st.booleans(), min_size=length, max_size=length).map(np.array),
    )


@given(st.sampled_from([(23,), (20, 3)]), st.sampled_from([16, 24, 64]), st.data())
def test_whatever_is_read_is_intact(shape: tuple[int, ...], part_bytes: int, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "_PART_BYTES", part_bytes)
        array = np.arange(np.prod(shape)).reshape(shape)
        wrong = dict.fromkeys(data.draw(st.lists(st.integers(0, shape[0] - 1), min_size=1, max_size=2)), -1)
        view, repairs = checked(array, wrong)
        for index in data.draw(st.lists(indices(shape[0]), max_size=4)):
            np.testing.assert_array_equal(view[index], array[index])
        assert len(repairs) <= 1
        assert len(view) == shape[0]
        np.testing.assert_array_equal(view[:], array)
        assert len(repairs) == 1


def test_parts_that_are_not_read_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_PART_BYTES", 16)
    view, repairs = checked(np.arange(6), {5: -1})
    assert (view[0], view[1:4].tolist(), view[np.array([3, 0])].tolist(), repairs) == (0, [1, 2, 3], [3, 0], [])
    assert view[-1] == 5 and len(repairs) == 1


def test_empty_arrays_and_those_that_cannot_be_repaired() -> None:
    def refuse(damaged: StoredArray) -> StoredArray:
        raise UserError("the disk is broken")

    view = CheckedArray(stored(np.arange(3), [1]), refuse)
    with pytest.raises(UserError, match="the disk is broken"):
        view[0]
    view, _ = checked(np.zeros([0, 3], np.int64), {})
    assert (len(view), view[:].shape) == (0, (0, 3))
    with pytest.raises(IndexError):
        checked(np.arange(3), {})[0][np.array([3])]
    with pytest.raises(IndexError):
        checked(np.arange(3), {})[0][3]


def test_the_type_of_ids_holds_all_of_a_vocabulary() -> None:
    assert [id_dtype(size) for size in (4, 65_536, 65_537)] == ["H", "H", "i"]


@pytest.mark.parametrize(("code", "dtype"), [("H", "uint16"), ("i", "int32"), ("q", "int64")])
@pytest.mark.parametrize("count", [0, 1, 6, 1000])
def test_numpy_reads_the_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code, dtype: str, count: int) -> None:
    monkeypatch.setattr(encoding, "_BUFFER_ITEMS", 7)
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
