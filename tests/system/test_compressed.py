"""Blocks of complete lines: no line is lost or duplicated, for any lines, block sizes and compression."""

import bz2
import gzip
import lzma
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq_chat.system import compressed
from seq2seq_chat.system.compressed import (
    TOO_LONG_LINE,
    DamagedFile,
    LineBlocks,
    line_starts,
    read_decompressed,
    read_start,
)

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


SKIPPABLE_FRAME = b"\x50\x2a\x4d\x18\x04\x00\x00\x00size"  # as pzstd writes one before each frame


def zstd_frame(content: bytes) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True, write_content_size=False)
    return SKIPPABLE_FRAME + zstandard.ZstdCompressor(compression_params=parameters).compress(content)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstd_frame])
def test_a_damaged_member_is_no_end_of_file(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """Files of many members, with a large window and skippable frames; what follows the members is damage."""
    texts = [b"%d\n" % number * 1000 for number in range(5)]
    members = b"".join(map(compress, texts))
    (tmp_path / "members").write_bytes(members)
    assert read_decompressed(tmp_path / "members") == b"".join(texts)
    assert read_start(tmp_path / "members", 3001) == b"".join(texts)[:3001]
    (tmp_path / "damaged").write_bytes(members + b"\xff" + compress(texts[0])[1:])
    blocks = []
    with pytest.raises(DamagedFile, match="the compressed data are damaged"):
        for _, block in LineBlocks(tmp_path / "damaged"):
            blocks.append(bytes(block))
    assert b"".join(blocks) == b"".join(texts)
