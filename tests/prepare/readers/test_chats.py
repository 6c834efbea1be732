"""From exported chats to conversations: people, silences, your replies, several files, and input that is no chat."""

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from seq2seq_chat.cli import commands
from seq2seq_chat.prepare.readers.chats import Anonymizer, formats
from seq2seq_chat.prepare.readers.chats.formats import ChatFormat, Message

Prepare = Callable[..., Result]


@pytest.fixture
def prepare(tmp_path: Path) -> Prepare:
    """``prepare(path, …, "--me", "Ada")``: the result of the command, which writes to ``tmp_path / "out"``."""

    def run(*arguments: object) -> Result:
        words = ["prepare", "chats", *map(str, arguments), "--output", str(tmp_path / "out"), "--jobs", "1"]
        return CliRunner().invoke(commands, words)

    return run


def conversations(folder: Path) -> list[list[str]]:
    """The conversations of all splits, sorted."""
    texts = [(folder / f"{split}.txt").read_text() for split in ("train", "validation", "test")]
    parts = [part.splitlines() for text in texts for part in text.split("<<<<<END-CONV>>>>>\n")]
    return sorted(part for part in parts if part)


def reading(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "statistics.json").read_text())["reading"]


def chat(*turns: str) -> str:
    """A WhatsApp chat of turns such as ``13 09:05 Ada: text``, whose number is a day of March 2023."""
    return "".join(f"{turn[:2]}.03.23, {turn[3:8]} - {turn[9:]}\n" for turn in turns)


WITHOUT_MESSAGE, WITHOUT_REPLY = "yours, without a message before", "without a reply of yours"
CHAT = chat(
    "13 09:00 Messages and calls are end-to-end encrypted.",
    "13 09:05 Ben: Hi",
    "13 09:06 Ada: Hello",
    "13 09:07 Ada: you",
    "13 09:08 Ben: <Media omitted>",
    "13 09:09 Ada: How are you?",
    "13 10:00 Ben: fine",
    "13 16:30 Eve: Lunch?",
    "13 16:31 Ben: No",
    "13 16:32 Eve: Pity",
    "14 09:00 Ada: Morning",
)


def test_only_the_owner_reads_prepared_chats(prepare: Prepare, tmp_path: Path) -> None:
    (tmp_path / "chat.txt").write_text(CHAT)
    assert prepare(tmp_path / "chat.txt").exit_code == 0
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()}
    assert modes.pop("experiment.json") & 0o600 == 0o600  # has no text
    assert "train.txt" in modes and set(modes.values()) == {0o600}


LEFT_OUT = {"system": 1, "media": 1}


@pytest.mark.parametrize(
    ("options", "expected", "left_out"),
    [
        ("", "Hi / Hello you How are you? / fine | Lunch? / No / Pity | Morning", LEFT_OUT),
        ("--max-gap 30m", "Hi / Hello you How are you? | Lunch? / No / Pity | Morning | fine", LEFT_OUT),
        ("--max-gap off", "Hi / Hello you How are you? / fine / Lunch? / No / Pity / Morning", LEFT_OUT),
        ("--me ben", "Hello you How are you? / fine | Lunch? / No", LEFT_OUT | {WITHOUT_MESSAGE: 1, WITHOUT_REPLY: 2}),
        ("--me Ada --max-gap 1d", "Hi / Hello you How are you? / fine Lunch? No Pity / Morning", LEFT_OUT),
    ],
)
def test_conversations(tmp_path: Path, prepare: Prepare, options: str, expected: str, left_out: dict[str, int]) -> None:
    path = tmp_path / "chat.txt"
    path.write_text(CHAT)
    result = prepare(path, *options.split())
    assert result.exit_code == 0, result.output
    assert conversations(tmp_path / "out") == [part.split(" / ") for part in expected.split(" | ")]
    statistics = reading(tmp_path / "out")
    assert (statistics["records"], statistics["people"], statistics["left_out"]) == (11, 3, left_out)
    assert "people: 3, 2023-03-13 to 2023-03-1" in result.output
    assert re.search(r"^utterances over time: [ ▁▂▃▄▅▆▇█]{60}$", result.output, re.MULTILINE)
    assert "left out: 1 message (media)" in result.output
    experiment = json.loads((tmp_path / "out" / "experiment.json").read_text())
    assert experiment["data"]["pairing"] == ("alternating" if "--me" in options else "sliding")


@pytest.mark.parametrize("tokenizer", ["english", "unicode", "character", "whitespace"])
def test_your_replies_stay_paired_when_the_tokenizer_removes_messages(
    tmp_path: Path, prepare: Prepare, tokenizer: str
) -> None:
    path = tmp_path / "chat.txt"
    path.write_text(chat("13 09:05 Ben: hi", "13 09:06 Ada: 😂", "13 09:07 Ben: you", "13 09:08 Ada: yes"))
    assert prepare(path, "--me", "Ada", "--tokenizer", tokenizer).exit_code == 0
    expected = [["hi you", "yes"]] if tokenizer == "english" else [["hi", "😂", "you", "yes"]]
    assert conversations(tmp_path / "out") == expected


def test_several_chats_in_folders_and_archives(tmp_path: Path, prepare: Prepare) -> None:
    folder = tmp_path / "exports"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "WhatsApp Chat with Ben.txt").write_text(CHAT)
    (folder / "notes.txt").write_text("just some notes\n")
    message = {"type": "message", "date": "2023-03-13T09:05:00"}
    messages = [message | {"from": f"Person {text}", "text": text} for text in ("One", "Two")]
    telegram = {"type": "personal_chat", "id": 1, "messages": messages}
    with zipfile.ZipFile(folder / "telegram.zip", "w") as archive:
        archive.writestr("ChatExport/result.json", json.dumps(telegram))
        archive.writestr("ChatExport/photos/a.jpg", b"\xff\xd8")
    result = prepare(folder)
    assert result.exit_code == 0, result.output
    assert ["One", "Two"] in conversations(tmp_path / "out")
    assert ["Lunch?", "No", "Pity"] in conversations(tmp_path / "out")
    assert reading(tmp_path / "out")["people"] == 5


def test_the_largest_chats_of_an_account_are_named(tmp_path: Path, prepare: Prepare) -> None:
    message = {"type": "message", "date": "2023-03-13T09:05:00", "from": "Ada", "text": "hi"}
    both = [message, message | {"from": "Ben"}]
    chats: list[dict[str, Any]] = [{"name": None, "type": "personal_chat", "id": 1, "messages": both}]
    chats += [{"name": f"Chat {n}", "type": "private_group", "id": n, "messages": both * n} for n in range(2, 14)]
    chats += [{"name": "silent", "type": "private_group", "id": 20, "messages": []}]
    chats += [{"type": "saved_messages", "id": 21, "messages": both * 20}]
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"about": "Data of Telegram", "chats": {"list": chats}}))
    lines = prepare(path).output.splitlines()
    first = lines.index("  42 messages: (no name)")
    assert lines[first - 1].startswith("people: 2")
    assert lines[first + 1 : first + 10] == [f"  {2 * number} messages: Chat {number}" for number in range(13, 4, -1)]
    assert "messages: " not in lines[first + 10]
    assert "Chat 13" not in prepare(path, "--anonymize").output


def test_mixed_chats_are_separated(tmp_path: Path, prepare: Prepare) -> None:
    path = tmp_path / "sms.xml"
    rows = [("1", 1, "a1"), ("2", 1, "b1"), ("1", 2, "a2"), ("2", 2, "b2"), ("1", 1, "a3")]
    messages = "".join(
        f'<sms address="{address}" date="{1678698300000 + number}" type="{kind}" body="{text}" />'
        for number, (address, kind, text) in enumerate(rows)
    )
    path.write_text(f"<smses>{messages}</smses>")
    assert prepare(path).exit_code == 0
    assert conversations(tmp_path / "out") == [["a1", "a2", "a3"], ["b1", "b2"]]
    assert prepare(path, "--me", "anybody").exit_code == 0  # your own messages are marked
    assert conversations(tmp_path / "out") == [["a1", "a2"], ["b1", "b2"]]


def test_anonymize(tmp_path: Path, prepare: Prepare) -> None:
    path = tmp_path / "chat.txt"
    path.write_text(
        chat(
            "13 09:05 Ben Okri: Is ADA there? call +49 (151) 234-567",
            "13 09:06 Ada: mail a.b@example.org or https://a.example/x?y=1, Ben Okri, at 7",
        )
    )
    assert prepare(path, "--anonymize").exit_code == 0
    expected = [["Is NAME there? call NUMBER", "mail ADDRESS or LINK NAME, at NUMBER"]]
    assert conversations(tmp_path / "out") == expected
    everything = b"".join(file.read_bytes() for file in (tmp_path / "out").iterdir() if file.is_file())
    assert b"Okri" not in everything
    assert Anonymizer(["김민수"])("김민수야 민수") == "NAME야 민수"
    assert Anonymizer([])("a" * 300_000) == "a" * 300_000  # in an instant


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("chat.txt", b"", "is empty"),
        ("chat.txt", b"Dear diary,\ntoday it rained.\n", "Dear diary"),
        ("file", bytes(range(256)) * 4, "It is not text."),
        ("file", "שלום\u200f\nab".encode(), "שלום\u200f | ab"),
        ("WhatsApp Chat.txt", b"<!DOCTYPE html>\n<p>color: red</p>\n<p>color: red</p>\n", "is an HTML page"),
        ("a.mbox", b"From a Sat Nov 28 08:06:13 2026\nFrom: a\nDate: b\nSubject: c\n\nHello!\n", "is not a chat"),
        ("result.json", b'{"type": "personal_chat", "id": 1, "messages": [{"type": "mess', "after 0 messages"),
        (
            "result.json",
            b'{"type": "personal_chat", "id": 1, "messages": [{"type": "service"}, null]}',
            "after 1 message: a message is not as Telegram writes it (AttributeError",
        ),
        ("chat.txt", chat("13 09:05 Ada: <Media omitted>").encode(), "1 message (media)"),
        ("chat.txt", chat("13 09:05 Ada: one", "13 09:06 Ada: two").encode(), "no two consecutive utterances"),
        ("chat.txt", b"3/4/23, 9:05 - Ada: a\n3/5/23, 9:05 - Ben: b\n", "--date-order"),
    ],
)
def test_what_is_no_chat(tmp_path: Path, prepare: Prepare, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    result = prepare(path)
    assert result.exit_code != 0
    assert message in str(result.exception) + result.output
    assert not (tmp_path / "out" / "train.txt").exists()


@pytest.mark.parametrize(("content", "message"), [(bytes(1 << 24), "500 times"), (None, "Unpack it")])
def test_archives_that_are_refused(tmp_path: Path, prepare: Prepare, content: bytes | None, message: str) -> None:
    with zipfile.ZipFile(tmp_path / "chat.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.zip" if content is None else "chat.txt", content or b"PK")
    result = prepare(tmp_path / "chat.zip")
    assert message in str(result.exception) + result.output
    assert not (tmp_path / "out").exists()


def test_a_silence_without_a_unit_is_in_seconds(
    tmp_path: Path, prepare: Prepare, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "chat.txt").write_text(CHAT)
    prepare(tmp_path / "chat.txt", "--max-gap", "6m")
    assert "seconds" not in caplog.text
    prepare(tmp_path / "chat.txt", "--max-gap", "6")
    assert "--max-gap 6 are seconds; 6h are hours" in caplog.text


def test_an_unknown_name(tmp_path: Path, prepare: Prepare) -> None:
    (tmp_path / "chat.txt").write_text(CHAT)
    result = prepare(tmp_path / "chat.txt", "--me", "Bob")
    assert "Nobody in these chats is called Bob. The people who wrote most are Ada, Ben, Eve" in str(result.exception)


def test_a_format_of_another_package(tmp_path: Path, prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(export: Any) -> Any:
        for line in export.lines():
            author, _, text = line.partition(" says ")
            yield Message(author, None, text)

    entry = SimpleNamespace(load=lambda: ChatFormat("Says", lambda start: " says " in start, read))
    monkeypatch.setattr(formats, "entry_points", lambda group: [entry] if group == "seq2seq_chat.readers" else [])
    formats.chat_formats.cache_clear()
    (tmp_path / "chat.txt").write_text("Ada says Hi\nBen says Yo\n")
    try:
        assert prepare(tmp_path / "chat.txt").exit_code == 0
    finally:
        formats.chat_formats.cache_clear()
    assert conversations(tmp_path / "out") == [["Hi", "Yo"]]


def test_a_message_of_megabytes_is_damage(tmp_path: Path, prepare: Prepare) -> None:
    long = f"13 09:07 Ada: {'x' * 10_000_000}"
    path = tmp_path / "chat.txt"
    path.write_text(chat("13 09:05 Ada: Hi", "13 09:06 Ben: Yo", long, "13 09:08 Ben: Hm"))
    assert prepare(path, "--max-bad", "50").exit_code == 0
    assert conversations(tmp_path / "out") == [["Hi", "Yo Hm"]]
