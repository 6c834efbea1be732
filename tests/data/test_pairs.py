"""Pairs of texts: bad rows, encodings, compression, and files that differ in their numbers of lines."""

import bz2
import gzip
import logging
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from seq2seq_chat.config import Data, ParallelFiles, is_pairs
from seq2seq_chat.data import corpus_file
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.corpus_file import Corpus, CorpusError, read_pairs
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.system.lines import UTF8_REMEDY

GOOD = b"go on\tva\n"
SUFFIXES: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
    ".GZ": gzip.compress,
}


@pytest.fixture(autouse=True)
def _warn_again() -> None:
    corpus_file.warn_once.cache_clear()


def write(folder: Path, content: bytes, name: str = "pairs.tsv") -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


def parallel(folder: Path, source: bytes, target: bytes, suffix: str = "") -> ParallelFiles:
    return ParallelFiles(
        source=write(folder, source, f"lines.en{suffix}"), target=write(folder, target, f"lines.fr{suffix}")
    )


def rows(files: Corpus) -> list[tuple[str, str]]:
    return [tuple(pair) for pair in read_pairs(files)]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_compressed(tmp_path: Path, suffix: str) -> None:
    pack = SUFFIXES[suffix]
    expected = [("Où ?", "where ?"), ("b", "c d")]
    assert rows(write(tmp_path, pack("Où ?\twhere ?\nb\tc d\n".encode()), f"x.tsv{suffix}")) == expected
    assert rows(parallel(tmp_path, pack("Où ?\nb\n".encode()), pack(b"where ?\nc d\n"), suffix)) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\tb\n", [("a", "b")]),
        (b"a\tb", [("a", "b")]),
        (b"\xef\xbb\xbfa\tb\r\nc\td\r\n", [("a", "b"), ("c", "d")]),
        (b" a \t  b\r\n", [("a", "b")]),
        (b"Go.\tVa !\tCC-BY 2.0 (France) Attribution: tatoeba.org #1 (x) & #2 (y)\n", [("Go.", "Va !")]),
        (b"My teeth are in.\tMes dents   ", [("My teeth are in.", "Mes dents")]),
        ("a\u2028b\x0bc\x85d\re\tf\n".encode(), [("a\u2028b\x0bc\x85d\re", "f")]),
        (b'"a\t"b"\n', [('"a', '"b"')]),
    ],
)
def test_rows(tmp_path: Path, content: bytes, expected: list[tuple[str, str]]) -> None:
    assert rows(write(tmp_path, content)) == expected


def test_parallel_lines(tmp_path: Path) -> None:
    assert rows(parallel(tmp_path, b"\xef\xbb\xbfa\r\nb\tb\r\n", b"\xef\xbb\xbfc\nd")) == [("a", "c"), ("b\tb", "d")]
    assert rows(parallel(tmp_path, b"a\nb\n\n", b"c\nd\n")) == [("a", "c"), ("b", "d")]  # as in files of Moses
    assert rows(parallel(tmp_path, b"a\nb\n", b"c\nd\n\r\n")) == [("a", "c"), ("b", "d")]
    with pytest.raises(CorpusError, match=r"has 4 lines, but .* has 2 lines"):
        rows(parallel(tmp_path, b"a\nb\n\n\n", b"c\nd\n"))


BAD = {
    b"one column": "1 column instead of 2, separated by a tab",
    b"": "1 column instead of 2, separated by a tab",
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
    assert rows(path) == 199 * [("go on", "va")]
    assert rows(path) == 199 * [("go on", "va")]
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


@pytest.mark.parametrize(("bad", "accepted"), [(1, True), (2, False)])
def test_more_than_one_percent(tmp_path: Path, bad: int, accepted: bool) -> None:
    path = write(tmp_path, b"only one\n" * bad + GOOD * (100 - bad))
    if accepted:
        assert len(rows(path)) == 99
    else:
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


@pytest.mark.parametrize(("source", "target"), [(b"a\n" * 1000, b"b\n" * 999), (b"a\n", b""), (b"a", b"b\nc\n\n")])
def test_different_numbers_of_lines(tmp_path: Path, source: bytes, target: bytes) -> None:
    files = parallel(tmp_path, source, target)
    counts = [content.count(b"\n") + (content[-1:] not in (b"\n", b"")) for content in (source, target)]
    with pytest.raises(CorpusError) as error:
        rows(files)
    lines = [f"{count:,} line{'s' * (count != 1)}" for count in counts]
    assert str(error.value).startswith(f"{files.source} has {lines[0]}, but {files.target} has {lines[1]}. ")


@pytest.mark.parametrize(
    ("content", "message"),
    [("a\tb\n".encode("utf-16"), "UTF-16"), (gzip.compress(GOOD * 1000)[:-9], "damaged")],
    ids=["UTF-16", "truncated gzip"],  # gzip stores the time, so its bytes differ between workers
)
def test_unreadable(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        rows(write(tmp_path, content))
    with pytest.raises(CorpusError, match=message):
        rows(parallel(tmp_path, b"a\n", content))
    with pytest.raises(CorpusError, match="does not exist"):
        rows(ParallelFiles(source=write(tmp_path, b"a\n"), target="missing"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.tsv", True),
        ("b/A.TSV.GZ", True),
        ("a.tsv.zst", True),
        (".tsv", True),
        ("tsv", False),
        ("a.tsv/b.txt", False),
        ("a.tsv.txt", False),
        ("a.tsv.zip", False),
    ],
)
def test_name_of_a_file_of_pairs(name: str, expected: bool) -> None:
    assert is_pairs(name) is is_pairs(Path(name)) is expected


def open_samples(settings: Data) -> list[tuple[str, str]]:
    """The samples of the training corpus as the model sees them, decoded again."""
    codecs = build_codecs(settings)
    corpus = Dataset.open(settings.train, codecs, settings)
    return [
        (codecs.source.decode(corpus.source_ids(index)), codecs.target.decode(corpus.target_ids(index)))
        for index in range(len(corpus))
    ]


def test_pairs_without_tokens(tmp_path: Path) -> None:
    settings = Data(
        train=write(tmp_path, b"-\t-\n" * 3), vocabulary=write(tmp_path, b"<pad>\n<go>\n<eos>\n<unknown>\na", "v")
    )
    with pytest.raises(CorpusError, match="none of its pairs has tokens on both sides"):
        Dataset.open(settings.train, build_codecs(settings), settings)


def test_cache_of_parallel_files_follows_both(tmp_path: Path) -> None:
    files = parallel(tmp_path, b"a\nb\n", b"c\nd\n")
    settings = Data(train=files, tokenizer="whitespace")
    assert open_samples(settings) == [("a", "c"), ("b", "d")]
    write(tmp_path, b"e\nd\n", "lines.fr")
    assert open_samples(settings) == [("a", "e"), ("b", "d")]
    swapped = ParallelFiles(source=files.target, target=files.source)
    assert open_samples(Data(train=swapped, tokenizer="whitespace")) == [("e", "a"), ("d", "b")]
