"""Corpus files: conversations, pairs in one file or two, bad rows, encodings and compression."""

import gzip
import logging
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.config import ParallelFiles, is_pairs
from seq2seq_chat.data import corpus_file
from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION, CorpusError, read_pairs, read_utterances
from seq2seq_chat.data.running_text import read_text
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.lines import UTF8_REMEDY
from seq2seq_chat.text.lexicon import Lexicon, LexiconError
from seq2seq_chat.text.tokenizers.tokenizer import WhitespaceTokenizer
from seq2seq_chat.text.vocabulary import Vocabulary, VocabularyError
from tests.prepare.raw import PACKERS

MARKER = END_OF_CONVERSATION.encode()
GOOD = b"go on\tva\n"


@pytest.fixture(autouse=True)
def _warn_again() -> None:
    corpus_file.warn_once.cache_clear()


def write(folder: Path, content: bytes, name: str = "corpus.txt") -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


def parallel(folder: Path, source: bytes, target: bytes, suffix: str = "") -> ParallelFiles:
    files = {"source": (source, "en"), "target": (target, "fr")}
    return ParallelFiles(**{key: write(folder, text, f"lines.{name}{suffix}") for key, (text, name) in files.items()})


def rows(files: corpus_file.Corpus) -> list[tuple[str, str]]:
    return [tuple(pair) for pair in read_pairs(files)]


# all files


READERS: dict[str, tuple[Callable[[str], object], type[UserError]]] = {
    "conversations": (lambda path: list(read_utterances(path)), CorpusError),
    "pairs": (rows, CorpusError),
    "parallel files": (lambda path: rows(ParallelFiles(source=path, target=path)), CorpusError),
    "running text": (lambda path: list(read_text(path)), CorpusError),
    "vocabulary": (Vocabulary.load, VocabularyError),
    "lexicon": (lambda path: Lexicon.load(path, WhitespaceTokenizer()), LexiconError),
}
UTF16 = [  # which may be valid UTF-8: letters with NUL characters between them
    pack(text.encode(encoding))
    for encoding in ("utf-16", "utf-16-le", "utf-16-be")
    for text in ("hello\nyou\n", "\n\nhello\n", "你好\n你")
    for pack in (bytes, gzip.compress)
]
DOCUMENTS = {
    b"PK\x03\x04" + GOOD * 1000: "is a ZIP archive, or a document such as .docx",
    b"%PDF-1.5\n%\xe2\xe3\n" + GOOD: "is a PDF document. Save it as plain text",
    b"{\\rtf1\\ansi hello\n}": "is an RTF document. Save it as plain text",
}


@pytest.mark.parametrize("reader", READERS)
def test_unreadable_files(tmp_path: Path, reader: str) -> None:
    read, error = READERS[reader]
    for content in UTF16:
        with pytest.raises(error, match=r"corpus\.txt is not UTF-8 but UTF-16 or binary\. Convert UTF-16 with"):
            read(write(tmp_path, content))
    for content, reason in DOCUMENTS.items():
        with pytest.raises(error, match=re.escape(f"corpus.txt {reason}")):
            read(write(tmp_path, content))
    with pytest.raises(error, match="the compressed data are damaged"):
        read(write(tmp_path, gzip.compress(GOOD * 1000)[:-9]))
    with pytest.raises(error, match=r"none\.txt does not exist") as missing:
        read(str(tmp_path / "none.txt"))
    assert ("seq2seq-chat prepare" in str(missing.value)) == (reader != "lexicon")  # which prepare does not write
    with pytest.raises(error, match="is a folder"):
        read(str(tmp_path))


@pytest.mark.parametrize("reader", ["conversations", "vocabulary", "lexicon"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_bad_lines_are_named(tmp_path: Path, reader: str, pack: Callable[[bytes], bytes]) -> None:
    read, error = READERS[reader]
    with pytest.raises(error, match=r"corpus\.txt, line 3: byte 12 .*not UTF-8"):
        read(write(tmp_path, pack(GOOD + b"\nde\xe9f\n")))
    giant = GOOD + b"a word " * (1 << 18)  # not after minutes, in which all of it is divided into words
    with pytest.raises(error, match=r"corpus\.txt, line 2: longer than 1 MiB\. Write one utterance per line"):
        read(write(tmp_path, pack(giant)))


@pytest.mark.parametrize(("suffix", "pack"), [*PACKERS.items(), (".GZ", gzip.compress)])
def test_compressed(tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    expected = [("Où ?", "where ?"), ("b", "c d")]
    assert rows(write(tmp_path, pack("Où ?\twhere ?\nb\tc d\n".encode()), f"x.tsv{suffix}")) == expected
    assert rows(parallel(tmp_path, pack("Où ?\nb\n".encode()), pack(b"where ?\nc d\n"), suffix)) == expected
    assert list(read_utterances(write(tmp_path, pack("Où ?\n".encode()), f"x{suffix}"))) == [(0, "Où ?")]
    assert "".join(read_text(write(tmp_path, pack("\ufeffOù ?\r\n\r\nb\r\n".encode()), f"x{suffix}"))) == "Où ?\n\nb\n"
    lexicon = Lexicon.load(write(tmp_path, pack("é\tè\n".encode()), f"x{suffix}"), WhitespaceTokenizer())
    assert lexicon.find("é") == "è"


# conversations


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
def test_conversations(tmp_path: Path, contents: bytes, expected: list[tuple[int, str]]) -> None:
    assert list(read_utterances(write(tmp_path, contents))) == expected


@pytest.mark.parametrize("contents", [b"", b"\n \n", MARKER + b"\n" + MARKER + b"\n", b"\xef\xbb\xbf"])
def test_no_utterance(tmp_path: Path, contents: bytes) -> None:
    with pytest.raises(CorpusError, match=r"corpus\.txt has no utterance"):
        list(read_utterances(write(tmp_path, contents)))


UTTERANCES = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"])).filter(
    lambda text: text.strip() not in ("", END_OF_CONVERSATION) and not text.startswith("\ufeff")
)


@given(conversations=st.lists(st.lists(UTTERANCES, min_size=1), min_size=1))
def test_written_conversations_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, conversations: list[list[str]]
) -> None:
    path = tmp_path_factory.mktemp("written") / "corpus.txt"
    corpus_file.write_conversations(path, conversations)
    assert list(read_utterances(path)) == [(index, text) for index, texts in enumerate(conversations) for text in texts]


@pytest.mark.parametrize("bad", ["", " ", "a\nb", "a\r", "a\0", END_OF_CONVERSATION])
def test_invalid_utterances_are_rejected(tmp_path: Path, bad: str) -> None:
    path = Path(write(tmp_path, b"before\n"))
    with pytest.raises(CorpusError, match="cannot be an utterance"):
        corpus_file.write_conversations(path, [["a", bad]])
    assert path.read_text() == "before\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_few_nul_characters_are_part_of_the_text(tmp_path: Path) -> None:
    lines = ["größe\0n", *["Où est-il ? 你好"] * 1000]  # the check ends within a character
    path = write(tmp_path, "\n".join(lines).encode())
    assert [text for _, text in read_utterances(path)] == lines
    path = write(tmp_path, b"hello\nyou\0 there\n" + b"hello\nyou there\n" * 20 + b"gr\xf6\xdfe\n")
    with pytest.raises(CorpusError, match=r"corpus\.txt, line 43: byte 339 .*not UTF-8"):
        list(read_utterances(path))


@pytest.mark.parametrize(
    "marker",
    [
        *("<<<<END-CONV>>>>", "<<<<<end_conv>>>>>", " <END CONVERSATION>\r", "<<<<<END-CONV", "END-CONV>>>>>"),
        *("<<<<<EDN-CONV>>>>>", "<<<<<END-CON>>>>>", "</end of conversation>", ">>>>>END-CONV<<<<<>"),
    ],
)
def test_mistyped_marker(tmp_path: Path, caplog: pytest.LogCaptureFixture, marker: str) -> None:
    path = write(tmp_path, f"a\nb\n{marker}\nc\n{marker}\n".encode())
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            texts = [text.strip() for _, text in read_utterances(path)]
            assert texts == ["a", "b", marker.strip(), "c", marker.strip()]
    (message,) = caplog.messages  # one, although there are two such lines, and the file is read twice
    assert message.startswith(f"{path}, line 3: {marker.strip()} is read as an utterance; the line that ends")


@pytest.mark.parametrize(
    "text", ["<laughs>", "<converted>", "<end of conversation is near", "END-CONV?", "< 3", "a >", "the end conv"]
)
def test_other_lines_are_no_mistyped_markers(tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str) -> None:
    assert list(read_utterances(write(tmp_path, f"{text}\n{END_OF_CONVERSATION}\n".encode()))) == [(0, text)]
    assert not caplog.messages


def test_reading_is_streamed(tmp_path: Path) -> None:
    path = write(tmp_path, b"one utterance of some words\n" * 300_000)
    tracemalloc.start()
    count = sum(1 for _ in read_utterances(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 300_000
    assert peak < 3_000_000


# pairs


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\tb\n", [("a", "b")]),
        (b"a\tb", [("a", "b")]),
        (b"\xef\xbb\xbfa\tb\r\nc\td\r\n", [("a", "b"), ("c", "d")]),
        (b" a \t  b\r\n", [("a", "b")]),
        (b"\n\na\tb\n \r\nc\td\n\n\n", [("a", "b"), ("c", "d")]),
        (b"Go.\tVa !\tCC-BY 2.0 (France) Attribution: tatoeba.org #1 (x) & #2 (y)\n", [("Go.", "Va !")]),
        (b"My teeth are in.\tMes dents   ", [("My teeth are in.", "Mes dents")]),
        ("a\u2028b\x0bc\x85d\re\tf\n".encode(), [("a\u2028b\x0bc\x85d\re", "f")]),
        (b'"a\t"b"\n', [('"a', '"b"')]),
    ],
)
def test_rows(tmp_path: Path, content: bytes, expected: list[tuple[str, str]]) -> None:
    assert rows(write(tmp_path, content)) == expected


BAD = {
    b"one column": "1 column instead of 2, separated by a tab",
    b"a\tb\tc": "3 columns instead of 2, separated by a tab",
    b"a\tb\t": "3 columns instead of 2, separated by a tab",
    b"a\tb\tCC-BY\td": "4 columns instead of 2, separated by a tab",
    b"\tb": "the source is empty",
    b" \t\xe2\x80\x83": "the source is empty",
    b"a\t ": "the target is empty",
    b"a\tb\xff": f"byte 903 of the text is not UTF-8. {UTF8_REMEDY}",
    b"a\t\xed\xa0\x80": f"byte 902 of the text is not UTF-8. {UTF8_REMEDY}",
    b"a\t" + b"b" * (1 << 20): "longer than 1 MiB. Write one utterance per line",
}


@pytest.mark.parametrize(("bad", "reason"), BAD.items(), ids=range(len(BAD)))
def test_bad_rows_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: bytes, reason: str) -> None:
    path = write(tmp_path, 100 * GOOD + bad + b"\n" + 99 * GOOD)
    caplog.set_level(logging.WARNING)
    assert rows(path) == rows(path) == 199 * [("go on", "va")]
    assert caplog.messages == [f"left out 1 bad row; the first is {path}, line 101: {reason}"]


def test_bad_lines_of_parallel_files_do_not_shift_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source, target = ([b"%d" % number for number in range(300)] for _ in range(2))
    source[10], target[20], source[30] = b"", b"\xff", b"x" * ((1 << 20) + 1)
    source[40] = b"y" * ((1 << 26) + 1)
    files = parallel(tmp_path, b"\n".join(source), b"\n".join(target))
    with pytest.raises(CorpusError, match=r"line 11: the source is empty\. In total, 4 of 300 rows are bad"):
        rows(files)
    source[40] = b"40"
    files = parallel(tmp_path, b"\n".join(source), b"\n".join(target))
    assert rows(files) == [(str(number), str(number)) for number in range(300) if number not in (10, 20, 30)]
    assert caplog.messages == [f"left out 3 bad rows; the first is {files}, line 11: the source is empty"]


def test_more_than_one_percent(tmp_path: Path) -> None:
    assert len(rows(write(tmp_path, b"only one\n" + GOOD * 99))) == 99
    path = write(tmp_path, b"only one\n" * 2 + GOOD * 98)
    with pytest.raises(CorpusError) as error:
        rows(path)
    assert str(error.value) == (
        f"{path}, line 1: 1 column instead of 2, separated by a tab. In total, 2 of 100 rows are bad; repair them, "
        "or leave them out with seq2seq-chat prepare pairs --max-bad."
    )


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n", b"a,b\nc,d\n"])
def test_no_pairs(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(CorpusError, match=r"has no pairs of texts|rows are bad"):
        rows(write(tmp_path, content))


def test_parallel_lines(tmp_path: Path) -> None:
    assert rows(parallel(tmp_path, b"\xef\xbb\xbfa\r\nb\tb\r\n", b"\xef\xbb\xbfc\nd")) == [("a", "c"), ("b\tb", "d")]
    assert rows(parallel(tmp_path, b"a\nb\n\n", b"c\nd\n")) == [("a", "c"), ("b", "d")]  # as in files of Moses
    assert rows(parallel(tmp_path, b"a\nb\n", b"c\nd\n\r\n")) == [("a", "c"), ("b", "d")]
    assert rows(parallel(tmp_path, b"a\nb\n\n\n\n", b"c\nd\n")) == [("a", "c"), ("b", "d")]


@pytest.mark.parametrize(
    ("source", "target", "counts"),
    [
        (b"a\n" * 1000, b"b\n" * 999, ("1,000 lines", "999 lines")),
        (b"a\n", b"", ("1 line", "0 lines")),
        (b"a", b"b\nc\n\n", ("1 line", "3 lines")),
        (b"a\nb\n\n\nc\n", b"c\nd\n", ("5 lines", "2 lines")),
    ],
    ids=range(4),
)
def test_different_numbers_of_lines(tmp_path: Path, source: bytes, target: bytes, counts: Any) -> None:
    files = parallel(tmp_path, source, target)
    with pytest.raises(CorpusError) as error:
        rows(files)
    assert str(error.value).startswith(f"{files.source} has {counts[0]}, but {files.target} has {counts[1]}. ")


def test_name_of_a_file_of_pairs() -> None:
    for name in ("a.tsv", "b/A.TSV.GZ", "a.tsv.zst", ".tsv"):
        assert is_pairs(name) and is_pairs(Path(name))
    for name in ("tsv", "a.tsv/b.txt", "a.tsv.txt", "a.tsv.zip"):
        assert not is_pairs(name) and not is_pairs(Path(name))
