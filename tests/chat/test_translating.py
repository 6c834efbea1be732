"""A translation model in the terminal."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from seq2seq_chat.chat.chatbot import Hypothesis, Reply
from seq2seq_chat.cli.conversation import ReplyFormat, converse
from seq2seq_chat.config import Config, Data, Decoding


class Shouting:
    """Translates into capitals, and reads four words."""

    config = Config(name="loud", task="translation", data=Data(train="x.tsv"))

    def reply(self, text: str, decoding: Decoding, history: list[str]) -> Reply:
        assert history == []
        words = text.split()
        unread = max(0, len(words) - 4)
        read = words[unread:]
        attention = [[float(row == column) for column in range(len(read))] for row in range(len(read))]
        best = Hypothesis(" ".join(read).upper(), [word.upper() for word in read], -0.5, True, attention, -0.5)
        return Reply(best.text, [best], read, [], 0.0, unread)


def test_lines_are_translated_without_a_history(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["/why", "bye", "a b", "/why", "a b c d e f", "/reset", "quit !", "/quit"])
    prompts = []

    def fake_input(prompt: str) -> str:
        prompts.append(prompt)
        return next(typed)

    monkeypatch.setattr(builtins, "input", fake_input)
    bot: Any = Shouting()
    converse(bot, Decoding(), ReplyFormat())
    assert set(prompts) == {"source: "}
    title, _, *lines = capsys.readouterr().out.splitlines()
    assert "history" not in title
    assert lines == [
        "no translation yet",
        "translation: BYE",
        "translation: A B",
        "tokens read: a b",
        "   -0.50  A B",
        "attention: A ← a   B ← b",
        "translation: C D E F",
        "(the model reads only the last 4 of 6 tokens)",
        "/quit or Ctrl-D ends, /why explains the last translation, /help lists all commands",
        "translation: QUIT !",
    ]
