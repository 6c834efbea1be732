"""Files that are written past the operating system's cache."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from seq2seq_chat import direct
from seq2seq_chat.atomic import Draft
from seq2seq_chat.errors import UserError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a file system that can, with small blocks."""
    monkeypatch.setattr(direct, "BLOCK", 4096)
    try:
        direct.DirectStream(tmp_path / "trial").close()
    except OSError as error:
        pytest.skip(f"the file system of temporary files cannot write past the cache: {error}")
    (tmp_path / "trial").unlink()
    return tmp_path


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 12288, 50000])
def test_every_byte_arrives(folder: Path, size: int) -> None:
    numbers = random.Random(size)
    expected, position = numbers.randbytes(size), 0
    draft = Draft(folder / "file", "direct")
    while position < size:
        part = expected[position : position + numbers.randint(1, 9000)]
        assert draft.stream.write(part) == len(part)
        position += len(part)
    draft.publish()
    assert (folder / "file").read_bytes() == expected
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_a_draft_that_is_discarded_leaves_nothing(folder: Path) -> None:
    draft = Draft(folder / "file", "direct")
    draft.stream.write(b"x" * 5000)
    draft.discard()
    assert not list(folder.iterdir())


def test_a_full_disk_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, data: object, position: int) -> int:
        raise OSError(28, "No space left on device")

    draft = Draft(folder / "file", "direct")
    draft.stream.write(b"x" * 100)
    monkeypatch.setattr("os.pwrite", full)
    with pytest.raises(UserError, match="No space left on device"):
        draft.publish()
    assert not list(folder.iterdir())


def test_a_disk_is_tried_before_it_is_called_fast(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "FAST", 0.0)
    assert direct.is_fast(folder)
    monkeypatch.setattr(direct, "FAST", 1e15)
    assert not direct.is_fast(folder)
    assert not direct.is_fast(folder / "nowhere")
    assert not list(folder.iterdir())
