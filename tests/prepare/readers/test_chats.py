"""Chats from the export to the samples, by the command line."""

import json
import zipfile
from pathlib import Path

import pytest

from tests.conftest import Cli

CHAT = (
    "13.03.23, 09:05 - Ada: Good morning!\n13.03.23, 09:06 - Ada: Did you sleep?\n13.03.23, 09:07 - Ben: Yes.\n"
    "13.03.23, 09:08 - Ada: <Media omitted>\n13.03.23, 20:00 - Ben: Pizza?\n13.03.23, 20:01 - Ada: Sure, 19:30?\n"
    "13.03.23, 20:02 - Ben: See you\nthere\n13.03.23, 20:03 - Ada: Bye\n"
)
MARKER = "<<<<<END-CONV>>>>>"


def prepare(cli: Cli, *arguments: object, output: Path) -> list[str]:
    result = cli("prepare", "chats", *arguments, "--split", "1,0,0", "--output", output)
    assert result.status == 0, result
    return (output / "train.txt").read_text(encoding="utf-8").splitlines()


def test_messages_become_conversations(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "chat.txt").write_text(CHAT, encoding="utf-8")
    conversations = ["Good morning! Did you sleep?", "Yes.", MARKER, "Pizza?", "Sure, 19:30?", "See you there", "Bye"]
    assert prepare(cli, tmp_path / "chat.txt", output=tmp_path / "out") == [*conversations, MARKER]
    joined = [line for line in conversations if line != MARKER]
    assert (
        prepare(cli, tmp_path / "chat.txt", "--max-gap", "2d", output=tmp_path / "joined")
        == [
            *joined[:1],
            "Yes. Pizza?",  # the other person's message between them is left out
            *joined[3:],
            MARKER,
        ]
    )
    reading = json.loads((tmp_path / "out" / "statistics.json").read_text())["reading"]
    assert (reading["records"], reading["people"], reading["left_out"]) == (8, 2, {"media": 1})


def test_all_replies_are_mine(cli: Cli, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "WhatsApp Chat with Ada.zip", "w") as archive:
        archive.writestr("WhatsApp Chat with Ada.txt", CHAT)
    lines = prepare(cli, tmp_path / "WhatsApp Chat with Ada.zip", "--me", "ben", output=tmp_path / "out")
    assert lines == ["Good morning! Did you sleep?", "Yes.", MARKER, "Sure, 19:30?", "See you there", MARKER]
    experiment = json.loads((tmp_path / "out" / "experiment.json").read_text())
    assert experiment["data"]["pairing"] == "alternating"
    statistics = json.loads((tmp_path / "out" / "statistics.json").read_text())
    assert statistics["train"]["samples"] == 2
    left_out = statistics["reading"]["left_out"]
    assert left_out == {"media": 1, "yours, without a message before": 1, "without a reply of yours": 1}
    assert sum(left_out.values()) + 5 == statistics["reading"]["records"] == 8  # five messages are in the samples


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("One line\nand another\n", [], "is not a chat that `prepare chats` can read"),
        ("", [], "is empty"),
        (CHAT, ["--me", "Eve"], "Nobody in these chats is called Eve. The people who wrote most are"),
        (CHAT, ["--max-gap", "6 weeks"], "6 weeks is neither a time, such as 90s, 10m, 6h or 2d, nor off"),
        (
            "3/4/23, 9:05 - Ada: Hello\n5/6/23, 9:06 - Ben: Hello\n",
            [],
            "may start with the day or with the month",
        ),
    ],
)
def test_what_cannot_be_read(cli: Cli, tmp_path: Path, content: str, options: list[str], message: str) -> None:
    (tmp_path / "chat.txt").write_text(content)
    result = cli("prepare", "chats", tmp_path / "chat.txt", *options, "--output", tmp_path / "out")
    assert message in result.error_message
    assert not (tmp_path / "out").exists()
