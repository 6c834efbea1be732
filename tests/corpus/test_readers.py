from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.corpus import READERS, CorpusError, read_dailydialog, read_lines

Write = Callable[..., Path]


def test_names() -> None:
    assert READERS == {"dailydialog": read_dailydialog, "lines": read_lines}


@pytest.mark.parametrize("compressed", [False, True])
def test_dailydialog(tmp_path: Path, compressed: bool) -> None:
    text = "Hi , Jim . __eou__ That's it!__eou__\n\n * __eou__\nA __eou__ ... __eou__ — __eou__\n"
    path = tmp_path / "dialogues"
    path.write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    assert list(read_dailydialog(path)) == [["hi , jim .", "that s it !"], ["a", ". . ."]]


def test_not_dailydialog(tmp_path: Path) -> None:
    path = tmp_path / "dialogues_act.txt"
    path.write_text("a __eou__\n3 4 2\n")
    with pytest.raises(CorpusError, match=r"dialogues_act\.txt, line 2: no __eou__"):
        list(read_dailydialog(path))
    path.write_text("\n")
    with pytest.raises(CorpusError, match="holds no dialogue"):
        list(read_dailydialog(path))


def test_lines_with_markers(corpus_file: Write) -> None:
    path = corpus_file("Hi! / -- / Bo", "??? / *", "*")
    assert [list(conversation) for conversation in read_lines(path)] == [
        ["hi !", "bo"],
        ["? ? ?"],
    ]


@pytest.mark.parametrize("marker", [False, True])
def test_a_single_conversation_is_cut_into_blocks(corpus_file: Write, tmp_path: Path, marker: bool) -> None:
    words = [f"w{number}" for number in range(250)]
    lines = [line for word in words for line in (word, "***")]
    path = corpus_file(" / ".join(lines))
    if not marker:
        path.write_text("\n".join(lines))
    blocks = [list(conversation) for conversation in read_lines(path)]
    assert blocks == [words[:100], words[100:200], words[200:]]


def test_two_conversations_are_not_cut(corpus_file: Write) -> None:
    path = corpus_file(" / ".join(["a"] * 250), "b")
    assert [len(list(conversation)) for conversation in read_lines(path)] == [250, 1]


def test_lines_errors(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="does not exist"):
        list(read_lines(tmp_path / "none"))
    (tmp_path / "empty").touch()
    with pytest.raises(CorpusError, match="no utterance"):
        list(read_lines(tmp_path / "empty"))
