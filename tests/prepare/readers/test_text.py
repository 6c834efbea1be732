"""The readers of text corpora, on valid files, damaged ones, some that are something else, and the real DailyDialog."""

import gzip
import json
import os
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.pipeline import find_inputs, plan_tasks, prepare
from seq2seq_chat.prepare.readers import find_corpus
from seq2seq_chat.prepare.readers.lines import find_separator, other_format
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.prepare.shards import TaskReport
from seq2seq_chat.prepare.workers import read_tasks
from tests.conftest import Cli, run_command
from tests.prepare.raw import PACKERS

Write = Callable[..., Path]
Read = Callable[..., tuple[list[list[str]], TaskReport]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """``read("lines", path)``: the conversations as lists of utterances, and the report."""

    def reader(corpus: str, *paths: Path, **settings: str) -> tuple[list[list[str]], TaskReport]:
        shards = tmp_path / "shards"
        shards.mkdir(exist_ok=True)
        (task,) = plan_tasks(corpus, find_corpus(corpus).settings(**settings), find_inputs(corpus, paths))
        (report,) = read_tasks([task], shards, 1)
        rows = pq.read_table(shards / task.key() / "rows.parquet").to_pylist()
        for _, group in groupby(rows, key=lambda row: row["file"]):
            positions = [row["position"] for row in group]
            assert positions == list(range(len(positions)))
        grouped = groupby(rows, key=lambda row: (row["file"], row["conversation"]))
        keyed = [(key, [row["text"] for row in group]) for key, group in grouped]
        numbered = [(piece.file, n) for piece in report.pieces for n in range(piece.conversations)]
        assert [key for key, _ in keyed] == numbered
        return [texts for _, texts in keyed], report

    return reader


COMPRESSORS = list(PACKERS.values())


@pytest.mark.parametrize("corpus", ["lines", "tweets", "text"])
def test_carriage_returns_alone_end_lines(corpus: str, tmp_path: Path) -> None:
    lines = [f"Line number {number}" for number in range(60)]
    for name, end in (("old", "\r"), ("new", "\n")):
        (tmp_path / f"{name}.txt").write_text(end.join([*lines, ""]), newline="")
        result = run_command("prepare", corpus, tmp_path / f"{name}.txt", "--output", tmp_path / name)
        assert result.status == 0, result
    for name in ("train", "validation", "test"):
        assert (tmp_path / "old" / f"{name}.txt").read_text() == (tmp_path / "new" / f"{name}.txt").read_text() != ""


@pytest.mark.parametrize("compress", COMPRESSORS)
def test_dailydialog(tmp_path: Path, read: Read, compress: Callable[[bytes], bytes]) -> None:
    text = "\ufeffHi , Jim . __eou__ That's it!__eou__\n\n * __eou__\r\nA __eou__ ... __eou__ — __eou__"
    path = tmp_path / "dialogues"
    path.write_bytes(compress(text.encode()[:50]) + (compress(text.encode()[50:])))
    conversations, report = read("dailydialog", path)
    assert conversations == [["hi , jim .", "that s it !"], ["a", ". . ."]]
    assert (report.pieces[0].records, report.pieces[0].damaged, report.damages) == (3, 0, [])


def test_dailydialog_as_distributed(tmp_path: Path) -> None:
    splits = ("train", "validation", "test")
    names = [f"{split}/dialogues_{kind}{split}.txt" for split in splits for kind in ("", "act_", "emotion_")]
    for name in ["dialogues_text.txt", "dialogues_topic.txt", "dialogues_act.txt", "dialogues_emotion.txt", *names]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1 2\n")
    found = [file.path.relative_to(tmp_path).as_posix() for file in find_inputs("dailydialog", [tmp_path])]
    assert sorted(found) == sorted(f"{split}/dialogues_{split}.txt" for split in splits)


def test_not_dailydialog(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "dialogues_act.txt"
    path.write_bytes(b"a __eou__\n3 4 2\n\xff __eou__\nb __eou__\n")
    conversations, report = read("dailydialog", path)
    assert conversations == [["a"], ["b"]]
    assert (report.pieces[0].records, report.pieces[0].damaged) == (4, 2)
    first, second = (damage.text for damage in report.damages)
    assert first.startswith(f"{path}, line 2: no __eou__")
    assert second == f"{path}, line 3: byte 0 of the line is not UTF-8"


def test_lines_with_markers(corpus_file: Write, read: Read) -> None:
    path = corpus_file("Hi! / -- / Bo", "??? / *", "*")
    conversations, report = read("lines", path)
    assert conversations == [["hi !", "bo"], ["? ? ?"]]
    assert not report.pieces[0].single_conversation


@pytest.mark.parametrize("turns", ["running", "odd-even"])
def test_mistyped_marker_is_damage(tmp_path: Path, read: Read, turns: str) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("a\nb\n<<<<END-CONV>>>>\nc\nd\n<<<<<END-CONV>>>>>\n")
    conversations, report = read("lines", path, turns=turns)
    assert conversations == [["a", "b"], ["c", "d"]]
    (damage,) = (damage.text for damage in report.damages)
    assert damage == f"{path}, line 3: <<<<END-CONV>>>> is not the line that ends a conversation, <<<<<END-CONV>>>>>"


@pytest.mark.parametrize("corpus", ["lines", "tweets", "dailydialog"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["hello __eou__\nyou __eou__\n", "\n\nhello\n", "你好\n你\n"])
@pytest.mark.parametrize("compress", COMPRESSORS[:2])
def test_utf16_is_rejected(
    tmp_path: Path, read: Read, corpus: str, encoding: str, text: str, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "chats.txt"
    path.write_bytes(compress(text.encode(encoding)))
    with pytest.raises(CorpusError, match=r"chats\.txt is not UTF-8 but UTF-16 or binary\. Convert UTF-16 with iconv"):
        read(corpus, path)


@pytest.mark.parametrize(("turns", "expected"), [("running", [["a", "b", "c"]]), ("odd-even", [["b", "c"]])])
def test_giant_line_is_damage(tmp_path: Path, read: Read, turns: str, expected: list[list[str]]) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"a\n" + b"word " * (1 << 18) + b"\nb\nc\n")
    conversations, report = read("lines", path, turns=turns)
    assert conversations == expected
    assert [damage.text for damage in report.damages] == [f"{path}, line 2: longer than 1 MiB"]
    assert report.pieces[0].records == 4


@pytest.mark.parametrize("marker", [False, True])
def test_single_conversation_is_detected(corpus_file: Write, read: Read, marker: bool) -> None:
    path = corpus_file("a / b / c")
    if not marker:
        path.write_text("a\nb\nc")
    conversations, report = read("lines", path)
    assert conversations == [["a", "b", "c"]]
    assert report.pieces[0].single_conversation


def test_tweets_are_unescaped(tmp_path: Path, read: Read) -> None:
    (tmp_path / "tweets.txt").write_text("salt &amp; pepper?\n&lt;3\n", encoding="utf-8")
    assert read("tweets", tmp_path / "tweets.txt")[0] == [["salt pepper ?", "3"]]


@pytest.mark.parametrize("corpus", ["tweets", "lines"])
def test_damage_does_not_shift_later_pairs(tmp_path: Path, read: Read, corpus: str) -> None:
    path = tmp_path / "tweets.txt"
    path.write_bytes(b"q1\na1\nq2\n***\n\na3\nq4\na4\n\xff\na5\nq6\na6\r\nq7")
    conversations, report = read(corpus, path, **({"turns": "odd-even"} if corpus == "lines" else {}))
    assert conversations == [["q1", "a1"], ["q4", "a4"], ["q6", "a6"]]
    assert [damage.text for damage in report.damages] == [f"{path}, line 9: byte 0 of the line is not UTF-8"]
    assert (report.pieces[0].records, report.pieces[0].damaged) == (13, 1)


def cornell(folder: Path, conversations: str, lines: bytes) -> Path:
    folder.mkdir()
    (folder / "movie_conversations.txt").write_text(conversations)
    (folder / "movie_lines.txt.gz").write_bytes(gzip.compress(lines))
    return folder


def test_cornell_of_convokit(tmp_path: Path, read: Read) -> None:
    """Replies come before what they reply to; a second reply to an utterance is left out."""
    list_as_id = '{"id": ["L6"], "reply-to": null, "text": "a"}'
    utterances = [
        ("L3", "L1", "L2", "third", "reply-to"),
        ("L2", "L1", "L1", "second <u>one</u>", "reply-to"),
        ("L1", "L1", None, "first\nline", "reply-to"),
        ("L9", "L8", "L8", "b", "reply_to"),
        ("L4", "L1", "L1", "another", "reply-to"),
        ("L8", "L8", None, "a", "reply_to"),
    ]
    lines = [
        json.dumps({"id": name, "conversation_id": root, "text": text, "speaker": "u0", "meta": {}, key: parent})
        for name, root, parent, text, key in utterances
    ]
    (tmp_path / "utterances.jsonl").write_text("\n".join([*lines, '{"id": "L5"}', list_as_id]) + "\n")
    (tmp_path / "conversations.json").write_text("{}")
    conversations, report = read("cornell", tmp_path)
    assert conversations == [["first line", "second one", "third"], ["a", "b"]]
    (piece,) = report.pieces
    assert (piece.records, piece.damaged) == (8, 2)
    assert piece.left_out == {"beside the first reply to an utterance": 1}


def test_cornell(tmp_path: Path, read: Read) -> None:
    folder = cornell(
        tmp_path / "cornell",
        "u0 +++$+++ u2 +++$+++ m0 +++$+++ ['L2', 'L1']\n"
        "u0 +++$+++ u2 +++$+++ m0 +++$+++ ['L3', 'L9']\n"
        "u0 +++$+++ u2 +++$+++ m1 +++$+++ []\n"
        "u0 +++$+++ u2 +++$+++ m1 +++$+++ ['L3', 'L4', 'L3']\n",
        "L1 +++$+++ u0 +++$+++ m0 +++$+++ BIANCA +++$+++ <u>They</u> d<i>o</i>!\n"
        "L2 +++$+++ u0 +++$+++ m0 +++$+++ A +++$+++ To +++$+++ me?\n"
        "L3 +++$+++ u0 +++$+++ m0 +++$+++ A +++$+++ Caf\u00e9\n".encode("latin-1")
        + b"L4 +++$+++ u0 +++$+++ m0 +++$+++ A +++$+++\nL5 +++$+++ x\n",
    )
    expected = [["to me ?", "they do !"], ["cafe", "cafe"]]
    for named in (folder, folder / "movie_conversations.txt", folder / "movie_lines.txt.gz"):
        conversations, report = read("cornell", named)
        assert conversations == expected
    assert [damage.text.split("movie_conversations.txt, ")[1] for damage in report.damages] == [
        "movie_lines.txt.gz, line 5: fewer than five fields",
        "line 2: line L9 is not in movie_lines.txt.gz",
        "line 3: no line ids",
    ]
    assert (report.pieces[0].records, report.pieces[0].damaged) == (9, 3)


@pytest.mark.parametrize("compress", COMPRESSORS[1:])
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_damaged_compressed_file_is_read_up_to_the_damage(
    tmp_path: Path, read: Read, compress: Callable[[bytes], bytes], damage: str
) -> None:
    first, second = (compress("".join(f"w{n} __eou__\n" for n in range(k, k + 500)).encode()) for k in (0, 500))
    middle = len(second) // 2
    rest = b"" if damage == "cut" else bytes([second[middle] ^ 255]) + second[middle + 1 :]
    path = tmp_path / "dialogues.txt.compressed"
    path.write_bytes(first + second[:middle] + rest)
    conversations, report = read("dailydialog", path)
    assert len(conversations) >= 500
    assert conversations[:500] == [[f"w{n}"] for n in range(500)]
    assert report.pieces[0].incomplete
    (reported,) = report.damages
    assert re.search(r", after line \d+: .*compressed data", reported.text)


def test_the_real_dailydialog(dailydialog: Path, tmp_path: Path) -> None:
    """Its official split is kept, and its text is cleaned."""
    prepare(PrepareSettings("dailydialog", vocabulary_size=8000), [dailydialog], tmp_path)
    lines = {name: (tmp_path / f"{name}.txt").read_text().splitlines() for name in ("train", "validation", "test")}
    assert [texts.count("<<<<<END-CONV>>>>>") for texts in lines.values()] == [11_118, 1000, 1000]
    allowed = re.compile(r"([a-z0-9]+|[.,!?])( ([a-z0-9]+|[.,!?]))*|<<<<<END-CONV>>>>>")
    assert all(allowed.fullmatch(line) for line in lines["test"])


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
        ("From ada Sat Nov 28 08:06:13 2026\nFrom: ada\nDate: today\nSubject: hi\n\nHello!\n" * 3, "e-mail"),
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
