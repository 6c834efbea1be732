"""Files that `prepare lines` takes for something else, and what separates conversations in others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from seq2seq_chat.prepare.readers.lines import find_separator, other_format
from tests.conftest import Cli

TALK = [f"how are you {n} ?\nfine , thanks {n} ." for n in range(20)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n".join(TALK), None),
        ("\n".join(f'{{"id": {n}, "text": "hello"}}' for n in range(20)), "JSON"),
        ("<html>\n" + "<p>hello</p>\n" * 20, "XML or HTML"),
        ("from\tto\n" + "hello\tbonjour\n" * 20, "a table of 2 columns, separated by tabs"),
        ("id;user;text\n" + '1;ada;"so; it is"\n' * 20, "a table of 3 columns, separated by semicolons"),
        ("1\n00:00:01,000 --> 00:00:02,000\nHello.\n\n" * 20, "a chat (subtitles)"),
        ("Ada: hello\nBob: hi\n" * 20, "a chat (a text with names)"),
        ("well, I do, too\n" + "no, not today, sorry, but you may\nyes\n" * 20, None),
        ("[laughs] so what\n" * 20, None),
        ("a\tb\n", None),  # too short to tell
    ],
)
def test_what_a_file_looks_like(text: str, expected: str | None) -> None:
    found = other_format(text)
    assert found is None if expected is None else (found or "").startswith(expected)


@pytest.mark.parametrize(
    ("joint", "expected"),
    [("\n", None), ("\n\n", "blank"), ("\n===\n", "==="), ("\n\n---\n\n", "---"), ("\n \n", "blank")],
)
def test_what_separates_conversations(joint: str, expected: str | None) -> None:
    assert find_separator(joint.join(TALK) + "\n") == expected


def test_blank_lines_after_every_line_separate_nothing() -> None:
    assert find_separator("\n\n".join("\n".join(TALK).split("\n")) + "\n") is None


def test_separators_and_lines_as_they_are(cli: Cli, tmp_path: Path) -> None:
    """The conversations are those between the separators, and nothing is written by a refusal."""
    chat = tmp_path / "chat.txt"
    chat.write_text("\n\n".join(TALK) + "\n", encoding="utf-8")
    command = ("prepare", "lines", chat, "--output", tmp_path / "out", "--split", "100,0,0")
    refused = cli(*command)
    assert refused.status == 2 and "Use --separator blank, or --as-is" in refused.err
    assert not (tmp_path / "out").exists()
    assert cli(*command, "--separator", "blank").status == 0
    lines = (tmp_path / "out" / "train.txt").read_text(encoding="utf-8").splitlines()
    assert lines.count("<<<<<END-CONV>>>>>") == 20
    assert cli(*command, "--as-is").status == 0
    lines = (tmp_path / "out" / "train.txt").read_text(encoding="utf-8").splitlines()
    assert lines.count("<<<<<END-CONV>>>>>") == 1


def test_a_pipe_is_refused(cli: Cli, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for entry in (tmp_path / "pipe", "-"):
        result = cli("prepare", "lines", entry, "--output", tmp_path / "out")
        assert result.status == 2 and "is a pipe, which cannot be read twice" in result.err
