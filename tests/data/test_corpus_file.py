import gzip
import logging
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION, CorpusError, read_utterances, write_conversations

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


utterances = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"])).filter(
    lambda text: text.strip() not in ("", END_OF_CONVERSATION) and not text.startswith("\ufeff")
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


@pytest.mark.parametrize("bad", ["", " ", "a\nb", "a\r", "a\0", END_OF_CONVERSATION])
def test_invalid_utterances_are_rejected(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("before\n")
    with pytest.raises(CorpusError, match="cannot be an utterance"):
        write_conversations(path, [["a", bad]])
    assert path.read_text() == "before\n"
    assert list(tmp_path.iterdir()) == [path]


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"none\.txt does not exist"):
        read(tmp_path / "none.txt")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(b"".join(b"line %d\n" % n for n in range(1000)))[:-20])
    with pytest.raises(CorpusError, match="the compressed data are damaged"):
        read(tmp_path / "cut.txt.gz")
    with pytest.raises(CorpusError, match="is a folder"):
        read(tmp_path)


@pytest.mark.parametrize("contents", [b"", b"\n \n", MARKER + b"\n" + MARKER + b"\n", b"\xef\xbb\xbf"])
def test_no_utterance(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(contents)
    with pytest.raises(CorpusError, match=r"corpus\.txt has no utterance"):
        read(path)


@pytest.mark.parametrize("compressed", [False, True])
def test_not_utf8(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "corpus.txt"
    contents = b"abc\n\nde\xe9f\n"
    path.write_bytes(gzip.compress(contents) if compressed else contents)
    with pytest.raises(CorpusError, match=r"corpus\.txt, line 3: byte 7 .*not UTF-8"):
        read(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["hello\nyou\n", "\n\nhello\n", "你好\n你"])
@pytest.mark.parametrize("compressed", [False, True])
def test_utf16_is_rejected(tmp_path: Path, encoding: str, text: str, compressed: bool) -> None:
    """Without a byte order mark it may be valid UTF-8: letters with NUL characters between them."""
    path = tmp_path / "corpus.txt"
    contents = text.encode(encoding)
    path.write_bytes(gzip.compress(contents) if compressed else contents)
    with pytest.raises(CorpusError, match=r"corpus\.txt is not UTF-8 but UTF-16 or binary\. Convert UTF-16 with iconv"):
        read(path)


def test_a_few_nul_characters_are_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    lines = ["größe\0n", *["Où est-il ? 你好"] * 1000]  # the check ends within a character
    path.write_text("\n".join(lines), encoding="utf-8")
    assert [text for _, text in read_utterances(path)] == lines
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"hello\nyou\0 there\n" + b"hello\nyou there\n" * 20 + b"gr\xf6\xdfe\n")
    with pytest.raises(CorpusError, match=r"corpus\.txt, line 43: byte 339 .*not UTF-8"):
        read(path)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_giant_line_is_rejected(tmp_path: Path, compressed: bool) -> None:
    """Not after minutes, in which all of it is divided into words."""
    path = tmp_path / "corpus.txt"
    contents = b"hello\n" + b"a word " * (1 << 18)
    path.write_bytes(gzip.compress(contents) if compressed else contents)
    with pytest.raises(CorpusError, match=r"corpus\.txt, line 2: longer than 1 MiB\. Write one utterance per line"):
        read(path)


@pytest.mark.parametrize(
    "marker",
    [
        *("<<<<END-CONV>>>>", "<<<<<end_conv>>>>>", " <END CONVERSATION>\r", "<<<<<END-CONV", "END-CONV>>>>>"),
        *("<<<<<EDN-CONV>>>>>", "<<<<<END-CON>>>>>", "</end of conversation>", ">>>>>END-CONV<<<<<>"),
    ],
)
def test_mistyped_marker(tmp_path: Path, caplog: pytest.LogCaptureFixture, marker: str) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text(f"a\nb\n{marker}\nc\n{marker}\n")
    with caplog.at_level(logging.WARNING):
        assert [text.strip() for _, text in read(path)] == ["a", "b", marker.strip(), "c", marker.strip()]
        read(path)
    (message,) = caplog.messages  # one, although there are two such lines, and the file is read twice
    assert message.startswith(f"{path}, line 3: {marker.strip()} is read as an utterance; the line that ends")


@pytest.mark.parametrize(
    "text", ["<laughs>", "<converted>", "<end of conversation is near", "END-CONV?", "< 3", "a >", "the end conv"]
)
def test_other_lines_are_no_mistyped_markers(tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text(f"{text}\n{END_OF_CONVERSATION}\n")
    assert read(path) == [(0, text)]
    assert not caplog.messages


def test_reading_is_streamed(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"one utterance of some words\n" * 300_000)
    tracemalloc.start()
    count = sum(1 for _ in read_utterances(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 300_000
    assert peak < 3_000_000
