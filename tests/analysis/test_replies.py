"""Questions and transcripts read from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2seq_chat.report.predictions import read_questions, read_transcript
from seq2seq_chat.system.errors import UserError


def test_transcripts(tmp_path: Path) -> None:
    (tmp_path / "bot.txt").write_text("How are you?\tfine\nunasked ?\tno\n", encoding="utf-8")
    assert read_transcript(tmp_path / "bot.txt", ["hello !", "how are you ?"]) == ("bot", ["", "fine"])
    (tmp_path / "other.txt").write_text("где ты?\tтут\nКак дела?\tхорошо\n", encoding="utf-8")
    assert read_transcript(tmp_path / "other.txt", ["как дела ?", "Где ты ?"]).replies == ["хорошо", "тут"]
    (tmp_path / "lines.txt").write_text("hi\n\nfine\n", encoding="utf-8")
    assert read_transcript(tmp_path / "lines.txt", ["hello !", "how are you ?"]).replies == ["hi", "fine"]
    for text, message in (("hi\n", "1 replies to 2"), ("x\ty\nz\n", "line 2"), ("x\ty\n", "none of the questions")):
        (tmp_path / "wrong.txt").write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=message):
            read_transcript(tmp_path / "wrong.txt", ["hello !", "how are you ?"])
    (tmp_path / "none.txt").write_text("\n \n", encoding="utf-8")
    with pytest.raises(UserError, match="no questions"):
        read_questions(tmp_path / "none.txt")
