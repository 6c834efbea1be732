"""Files in blocks of whole lines: whatever the lines, the blocks and the packing, nothing is lost or given twice."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq_chat.corpus import compressed
from seq2seq_chat.corpus.compressed import BrokenStream, LineBlocks, line_starts

contents = st.lists(
    st.one_of(st.binary(max_size=40), st.integers(0, 60).map(lambda size: b"x" * size)), max_size=12
).map(b"\n".join)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents, st.integers(1, 16), st.integers(16, 40), st.booleans())
def test_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, block: int, longest: int, packed: bool
) -> None:
    monkeypatch.setattr(compressed, "_BLOCK_BYTES", block)
    monkeypatch.setattr(compressed, "LONGEST_LINE", longest)
    path = tmp_path / "lines"
    monkeypatch.setattr(compressed, "_RAW_BYTES", 7)
    half = len(content) // 2
    members = gzip.compress(content[:half]) + gzip.compress(content[half:])
    path.write_bytes(members if packed else b"-" + content)
    taken: list[int] = []
    first = 0 if packed else 1
    blocks = LineBlocks(path, first, progress=taken.append)
    expected, too_long, offset = [], [], first
    for line in [part + b"\n" for part in content.split(b"\n")]:
        if len(line) - 1 > longest:
            too_long.append(offset)
        else:
            expected.append((offset, line))
        offset += len(line)
    if expected and expected[-1][0] + len(expected[-1][1]) == offset:  # the last line has no line feed
        start, line = expected.pop()
        expected += [(start, line[:-1])] if line != b"\n" else []
    found = []
    for start, view in blocks:
        place = start
        for line in re.findall(rb"[^\n]*\n|[^\n]+", bytes(view)):
            found.append((place, line))
            place += len(line)
    assert found == expected
    assert blocks.too_long == too_long
    assert sum(taken) == path.stat().st_size - first


def test_what_is_held_of_a_line_is_lost_where_a_file_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n" + bytes(range(256)) * 4000)[:-5])
    found = []
    with pytest.raises(BrokenStream, match="ends before"):
        for start, block in LineBlocks(path):
            found.append((start, bytes(block)))
    assert b"".join(block for _, block in found).startswith(b"one\ntwo\n")
    assert found[-1][1].endswith(b"\n")


@given(contents.map(lambda content: b"-" + content), st.integers(1, 30), st.integers(1, 16))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_is_cut_between_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, apart: int, block: int
) -> None:
    monkeypatch.setattr(compressed, "_BLOCK_BYTES", block)
    path = tmp_path / "lines"
    path.write_bytes(content)
    starts = line_starts(path, apart)
    assert starts[0] == 0 and starts == sorted(set(starts))
    assert all(content[start - 1 : start] == b"\n" for start in starts[1:])
    parts = [
        b"".join(bytes(block) for _, block in LineBlocks(path, start, end))
        for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]
    assert b"".join(parts) == content
