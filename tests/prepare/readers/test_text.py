"""What the readers of text corpora make of a file, and of what is wrong with it."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import zstandard

from seq2seq_chat.corpus import CorpusError
from seq2seq_chat.corpus.inputs import find_inputs, plan_tasks
from seq2seq_chat.corpus.reading import read_tasks
from seq2seq_chat.corpus.shards import ReadingSettings, Report

Write = Callable[..., Path]
Read = Callable[..., tuple[list[list[str]], Report]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """``read("lines", path)``: the conversations as lists of utterances, and the report."""

    def reader(corpus: str, *paths: Path, **settings: str) -> tuple[list[list[str]], Report]:
        shards = tmp_path / "shards"
        shards.mkdir(exist_ok=True)
        (task,) = plan_tasks(corpus, ReadingSettings(**settings), find_inputs(corpus, paths))
        (report,) = read_tasks([task], shards, 1)
        rows = pq.read_table(shards / task.key() / "rows.parquet").to_pylist()
        files = groupby(rows, key=lambda row: row["file"])
        assert all(
            [row["position"] for row in group] == list(range(len(group))) for group in (list(g) for _, g in files)
        )
        grouped = groupby(rows, key=lambda row: (row["file"], row["thread"]))
        found = [(key, [row["text"] for row in group]) for key, group in grouped]
        for piece in report.pieces:
            assert [key for key, _ in found if key[0] == piece.file] == [(piece.file, n) for n in range(piece.threads)]
        return [texts for _, texts in found], report

    return reader


PACKERS = [bytes, gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor(write_checksum=True).compress]


@pytest.mark.parametrize("pack", PACKERS)
def test_dailydialog(tmp_path: Path, read: Read, pack: Callable[[bytes], bytes]) -> None:
    text = "\ufeffHi , Jim . __eou__ That's it!__eou__\n\n * __eou__\r\nA __eou__ ... __eou__ — __eou__"
    path = tmp_path / "dialogues"
    path.write_bytes(pack(text.encode()[:50]) + (pack(text.encode()[50:])))
    conversations, report = read("dailydialog", path)
    assert conversations == [["hi , jim .", "that s it !"], ["a", ". . ."]]
    assert (report.pieces[0].records, report.pieces[0].bad, report.damages) == (3, 0, [])


def test_not_dailydialog(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "dialogues_act.txt"
    path.write_bytes(b"a __eou__\n3 4 2\n\xff __eou__\nb __eou__\n")
    conversations, report = read("dailydialog", path)
    assert conversations == [["a"], ["b"]]
    assert (report.pieces[0].records, report.pieces[0].bad) == (4, 2)
    first, second = map(str, report.damages)
    assert first.startswith(f"{path}, line 2: no __eou__")
    assert second == f"{path}, line 3: byte 0 of the line is not UTF-8"


def test_lines_with_markers(corpus_file: Write, read: Read) -> None:
    path = corpus_file("Hi! / -- / Bo", "??? / *", "*")
    conversations, report = read("lines", path)
    assert conversations == [["hi !", "bo"], ["? ? ?"]]
    assert not report.pieces[0].single


@pytest.mark.parametrize("marker", [False, True])
def test_a_single_conversation_is_told(corpus_file: Write, read: Read, marker: bool) -> None:
    path = corpus_file("a / b / c")
    if not marker:
        path.write_text("a\nb\nc")
    conversations, report = read("lines", path)
    assert conversations == [["a", "b", "c"]]
    assert report.pieces[0].single


@pytest.mark.parametrize("corpus", ["tweets", "lines"])
def test_odd_and_even_lines_keep_step_whatever_is_lost(tmp_path: Path, read: Read, corpus: str) -> None:
    path = tmp_path / "tweets.txt"
    path.write_bytes(b"q1\na1\nq2\n***\n\na3\nq4\na4\n\xff\na5\nq6\na6\r\nq7")
    conversations, report = read(corpus, path, turns="odd-even")
    assert conversations == [["q1", "a1"], ["q4", "a4"], ["q6", "a6"]]
    assert [str(damage) for damage in report.damages] == [f"{path}, line 9: byte 0 of the line is not UTF-8"]
    assert (report.pieces[0].records, report.pieces[0].bad) == (13, 1)


def cornell(folder: Path, conversations: str, lines: bytes) -> Path:
    folder.mkdir()
    (folder / "movie_conversations.txt").write_text(conversations)
    (folder / "movie_lines.txt.gz").write_bytes(gzip.compress(lines))
    return folder


def test_cornell(tmp_path: Path, read: Read) -> None:
    folder = cornell(
        tmp_path / "cornell",
        "u0 +++$+++ u2 +++$+++ m0 +++$+++ ['L2', 'L1']\n"
        "u0 +++$+++ u2 +++$+++ m0 +++$+++ ['L3', 'L9']\n"
        "u0 +++$+++ u2 +++$+++ m1 +++$+++ []\n"
        "u0 +++$+++ u2 +++$+++ m1 +++$+++ ['L3', 'L4', 'L3']\n",
        "L1 +++$+++ u0 +++$+++ m0 +++$+++ BIANCA +++$+++ They do!\n"
        "L2 +++$+++ u0 +++$+++ m0 +++$+++ A +++$+++ To +++$+++ me?\n"
        "L3 +++$+++ u0 +++$+++ m0 +++$+++ A +++$+++ Caf\u00e9\n".encode("latin-1")
        + b"L4 +++$+++ u0 +++$+++ m0 +++$+++ A +++$+++\nL5 +++$+++ x\n",
    )
    expected = [["to me ?", "they do !"], ["cafe", "cafe"]]
    for named in (folder, folder / "movie_conversations.txt", folder / "movie_lines.txt.gz"):
        conversations, report = read("cornell", named)
        assert conversations == expected
    assert [str(damage).split("movie_conversations.txt, ")[1] for damage in report.damages] == [
        "movie_lines.txt.gz, line 5: not five fields, the last of them the text",
        "line 2: its line L9 is not in movie_lines.txt.gz",
        "line 3: it names no line",
    ]
    assert (report.pieces[0].records, report.pieces[0].bad) == (9, 3)


@pytest.mark.parametrize("pack", PACKERS[1:])
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_packed_file_is_read_as_far_as_it_is_sound(
    tmp_path: Path, read: Read, pack: Callable[[bytes], bytes], damage: str
) -> None:
    first, second = (pack("".join(f"w{n} __eou__\n" for n in range(k, k + 500)).encode()) for k in (0, 500))
    middle = len(second) // 2
    broken = (
        second[:middle] if damage == "cut" else second[:middle] + bytes([second[middle] ^ 255]) + second[middle + 1 :]
    )
    path = tmp_path / "dialogues.txt.packed"
    path.write_bytes(first + broken)
    conversations, report = read("dailydialog", path)
    assert len(conversations) >= 500
    assert conversations[:500] == [[f"w{n}"] for n in range(500)]
    assert report.pieces[0].incomplete
    (damage_found,) = report.damages
    assert damage_found.position.startswith("after line ")
    assert "compressed data" in damage_found.reason


def test_nothing_to_read(tmp_path: Path, read: Read) -> None:
    with pytest.raises(CorpusError, match="does not exist"):
        read("lines", tmp_path / "none")
    (tmp_path / "empty").touch()
    conversations, report = read("lines", tmp_path / "empty")
    assert (conversations, report.damages) == ([], [])
