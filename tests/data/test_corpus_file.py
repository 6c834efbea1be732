from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.corpus import (
    END_OF_CONVERSATION,
    CorpusError,
    read_utterances,
    write_conversations,
)
from seq2seq_chat.errors import UserError

MARKER = END_OF_CONVERSATION.encode()


def read(path: Path) -> list[tuple[int, str]]:
    return list(read_utterances(path))


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (b"a\nb\n" + MARKER + b"\nc\n" + MARKER + b"\n", [(0, "a"), (0, "b"), (1, "c")]),
        (b"a\nb", [(0, "a"), (0, "b")]),
        (b"a\n" + MARKER + b"\n\n" + MARKER + b"\nb\n", [(0, "a"), (1, "b")]),
        (MARKER + b"\na\n" + MARKER, [(0, "a")]),
        (b"\xef\xbb\xbfa\r\n\r\n  \n" + MARKER + b"\r\n b \r\n", [(0, "a"), (1, " b ")]),
        ("a\u2028b\x0bc\x85d\re\nf\n".encode(), [(0, "a\u2028b\x0bc\x85d\re"), (0, "f")]),
        (b"say " + MARKER + b"\n", [(0, "say <<<<<END-CONV>>>>>")]),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_read(tmp_path: Path, contents: bytes, expected: list[tuple[int, str]], compressed: bool) -> None:
    path = tmp_path / ("corpus.txt.gz" if compressed else "corpus.txt")
    path.write_bytes(gzip.compress(contents) if compressed else contents)
    assert read(path) == expected


utterances = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])).filter(
    lambda text: text.strip() and not text.startswith("\ufeff")
)


@given(conversations=st.lists(st.lists(utterances, min_size=1), min_size=1))
def test_written_conversations_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, conversations: list[list[str]]
) -> None:
    path = tmp_path_factory.mktemp("written") / "corpus.txt"
    write_conversations(path, conversations)
    assert read(path) == [
        (index, utterance) for index, conversation in enumerate(conversations) for utterance in conversation
    ]


def test_marker_follows_every_conversation(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    write_conversations(path, [["a", "b"], [], ["c"]])
    assert path.read_bytes() == b"a\nb\n" + MARKER + b"\nc\n" + MARKER + b"\n"


@pytest.mark.parametrize("bad", ["", " ", "a\nb", "a\r", END_OF_CONVERSATION])
def test_not_an_utterance(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("before\n")
    with pytest.raises(CorpusError, match="cannot be an utterance"):
        write_conversations(path, [["a", bad]])
    assert path.read_text() == "before\n"
    assert list(tmp_path.iterdir()) == [path]


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"none\.txt does not exist"):
        read(tmp_path / "none.txt")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="is a folder"):
        read(tmp_path)


@pytest.mark.parametrize("contents", [b"", b"\n \n", MARKER + b"\n" + MARKER + b"\n", b"\xef\xbb\xbf"])
def test_no_utterance(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(contents)
    with pytest.raises(CorpusError, match=r"corpus\.txt holds no utterance"):
        read(path)


@pytest.mark.parametrize("compressed", [False, True])
def test_not_utf8(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "corpus.txt"
    contents = b"abc\n\nde\xe9f\n"
    path.write_bytes(gzip.compress(contents) if compressed else contents)
    with pytest.raises(CorpusError, match=r"corpus\.txt, line 3: byte 7 .*not UTF-8"):
        read(path)


def test_utf16_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("hello\n", encoding="utf-16")
    with pytest.raises(CorpusError, match="line 1: byte 0"):
        read(path)


@pytest.mark.parametrize("damage", ["short", "flipped"])
def test_damaged_gzip(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "corpus.txt.gz"
    contents = bytearray(gzip.compress(b"".join(b"line %d\n" % n for n in range(1000))))
    if damage == "short":
        del contents[-20:]
    else:
        contents[len(contents) // 2] ^= 0xFF
    path.write_bytes(contents)
    with pytest.raises(CorpusError, match="not a sound gzip file"):
        read(path)


def test_an_endless_conversation_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"one utterance of some words\n" * 100_000)
    tracemalloc.start()
    count = sum(1 for _ in read_utterances(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 100_000
    assert peak < 500_000


def test_atomic_write_replaces_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_write(path, "wb") as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_atomic_write_leaves_nothing_on_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as stream:
        stream.write("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_atomic_write_text_is_utf8_with_plain_line_ends(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "file") as stream:
        stream.write("é\n")
    assert (tmp_path / "file").read_bytes() == b"\xc3\xa9\n"


def test_atomic_write_into_no_folder(tmp_path: Path) -> None:
    expected = pytest.raises(UserError, match=r"none.file could not be written")
    with expected, atomic_write(tmp_path / "none" / "file"):
        pass
