"""Files of JSON lines, complete, damaged and growing."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.runs.json_lines import CHECKSUM, JsonLinesWriter, append_durably, read_json_lines, read_objects
from seq2seq_chat.system.errors import UserError
from tests.conftest import limited_file_size


def line(step: int) -> str:
    return json.dumps({"step": step, "kind": "train", "loss": 1.0}) + "\n"


def steps(path: Path, max_bytes: int | None = None) -> list[int]:
    return [line["step"] for line in read_json_lines(path, max_bytes)]


@given(st.integers(0, 200))
def test_an_incomplete_last_line_is_skipped(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "metrics.jsonl"
    text = line(10) + line(20)
    path.write_text(text[: len(line(10)) + cut], encoding="utf-8")
    complete = cut >= len(line(20)) - 1  # without the line feed
    assert steps(path) == ([10, 20] if complete else [10])


def test_only_the_end_of_a_large_file_is_read_and_other_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(line(step) for step in range(1000)), encoding="utf-8")
    assert steps(path, max_bytes=3 * len(line(999)) + 5) == [997, 998, 999]
    assert steps(path) == list(range(1000))
    other = ["", "null", "[1]", '{"kind": "train"}', '{"step": -1}', '{"step": true}', '{"step": "4"}', "[" * 50_000]
    path.write_bytes("\n".join(other).encode() + b"\n\xff\xfe\n" + line(7).encode())
    assert steps(path) == [7]


def test_a_growing_file_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(line(0), encoding="utf-8")
    read = 0
    for entry in read_json_lines(path):  # each line that is read appends another one
        read += 1
        assert read < 10
        with open(path, "a", encoding="utf-8") as file:
            file.write(line(entry["step"] + 1))
    assert read == 1


def test_lines_are_appended_and_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = JsonLinesWriter(path)
    assert steps(path) == [] and writer.flush() == writer.discard_after(3) == 0 and not path.exists()
    for step, perplexity in ((1, 2.5), (2, math.inf), (3, math.nan)):
        writer.append({"step": step, "perplexity": perplexity})
    assert writer.flush() == 3
    assert [line["perplexity"] for line in read_json_lines(path)] == [2.5, None, None]
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"step": 4, "perp')
    assert writer.discard_after(2) == 2
    assert path.read_text(encoding="utf-8") == '{"step": 1, "perplexity": 2.5}\n{"step": 2, "perplexity": null}\n'
    assert writer.discard_after(None) == 0
    assert path.read_text(encoding="utf-8") == ""


def test_a_damaged_line_is_left_out_and_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Wherever it was changed. Lines of earlier versions, without checksums, are read."""
    path, entry = tmp_path / "votes.jsonl", {"choice": "left", "step": 7}
    path.write_text('{"choice": "right"}\n', encoding="utf-8")
    append_durably(path, entry)
    append_durably(path, {"step": 8})
    content = path.read_bytes()
    assert list(read_objects(path, reports=True)) == [{"choice": "right"}, entry, {"step": 8}]
    start = content.index(b"\n") + 1
    for position in (*range(start, content.index(CHECKSUM.encode())), content.index(b"}\n", start) - 1):
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        assert list(read_objects(path, reports=True)) == [{"choice": "right"}, {"step": 8}]
    assert caplog.messages == [f"line 2 of {path} is damaged and left out"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Unless it does not exist, or nobody wants to know."""
    for path, reports in ((tmp_path / "none", True), (tmp_path, False), (tmp_path, True)):
        assert list(read_objects(path, reports=reports)) == []
    assert caplog.messages == [f"{tmp_path} could not be read: Is a directory"]


def test_a_line_that_does_not_fit_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    """A nearly full disk takes a part of a write without an error."""
    path, line = tmp_path / "votes.jsonl", {"choice": "left", "step": 1}
    append_durably(path, line)
    stored, votes = path.read_bytes(), 1
    with limited_file_size(3 * len(stored) + 10):
        for _ in range(5):
            try:
                append_durably(path, line)
                votes += 1
            except UserError as error:
                assert "could not be written: File too large" in str(error)
    assert votes == 3
    assert path.read_bytes() == stored * votes
