"""Blocks of complete lines: no line is lost or duplicated, for any lines, block sizes and compression."""

from __future__ import annotations

import bz2
import gzip
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq_chat.data import compressed
from seq2seq_chat.data.compressed import TOO_LONG_LINE, DamagedFile, LineBlocks, line_starts

contents = st.lists(
    st.one_of(st.binary(max_size=40), st.integers(0, 60).map(lambda size: b"x" * size)), max_size=12
).map(b"\n".join)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents, st.integers(1, 16), st.integers(16, 40), st.booleans())
def test_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, block: int, max_line: int, is_compressed: bool
) -> None:
    monkeypatch.setattr(compressed, "_BLOCK_BYTES", block)
    monkeypatch.setattr(compressed, "MAX_LINE_BYTES", max_line)
    path = tmp_path / "lines"
    monkeypatch.setattr(compressed, "_RAW_BYTES", 7)
    half = len(content) // 2
    members = gzip.compress(content[:half]) + gzip.compress(content[half:])
    path.write_bytes(members if is_compressed else b"-" + content)
    consumed: list[int] = []
    first = 0 if is_compressed else 1
    blocks = LineBlocks(path, first, on_progress=consumed.append)
    expected, offset = [], first
    for line in re.findall(rb"[^\n]*\n|[^\n]+", content):
        expected.append((offset, TOO_LONG_LINE if len(line.removesuffix(b"\n")) > max_line else line))
        offset += len(line)
    lines = []
    for start, view in blocks:
        position = start
        for line in re.findall(rb"[^\n]*\n|[^\n]+", bytes(view)):
            lines.append((position, line))
            position += len(line)
    assert lines == expected
    assert sum(consumed) == path.stat().st_size - first


def test_truncated_file_loses_only_its_incomplete_line(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n" + bytes(range(256)) * 4000)[:-5])
    blocks_read = []
    with pytest.raises(DamagedFile, match="unexpected end"):
        for start, block in LineBlocks(path):
            blocks_read.append((start, bytes(block)))
    assert b"".join(block for _, block in blocks_read).startswith(b"one\ntwo\n")
    assert blocks_read[-1][1].endswith(b"\n")


@given(contents.map(lambda content: b"-" + content), st.integers(1, 30), st.integers(1, 16))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_files_are_split_between_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, spacing: int, block: int
) -> None:
    monkeypatch.setattr(compressed, "_BLOCK_BYTES", block)
    path = tmp_path / "lines"
    path.write_bytes(content)
    starts = line_starts(path, spacing)
    assert starts[0] == 0 and starts == sorted(set(starts))
    assert all(content[start - 1 : start] == b"\n" for start in starts[1:])
    parts = [
        b"".join(bytes(block) for _, block in LineBlocks(path, start, end))
        for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]
    assert b"".join(parts) == content


@pytest.mark.parametrize("text", [b"BZh9 is how such a file starts\n", b"BZh91AY is close\n"])
def test_a_text_may_start_like_compressed_data(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "plain").write_bytes(text)
    (tmp_path / "packed").write_bytes(bz2.compress(b"") + bz2.compress(text))
    for name in ("plain", "packed"):
        assert [bytes(block) for _, block in LineBlocks(tmp_path / name)] == [text]
