"""Models that earlier versions have exported still reply as the run did.

data/format1/ and data/format1_int8/ are exports of the run of version 0.1 in tests/runs/data/old_run/, whose output is
stored there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.runs.run import Run

DATA = Path(__file__).with_name("data")
OLD_RUN = Path(__file__).parents[1] / "runs" / "data" / "old_run"
EXPECTED: dict[str, Any] = json.loads((OLD_RUN / "expected.json").read_text(encoding="utf-8"))


def blocks(output: str) -> list[list[tuple[float, str]]]:
    """The scores and tokens of the hypotheses for each utterance."""
    return [
        [(float(score), tokens) for score, tokens in (line.split("\t") for line in block.splitlines())]
        for block in output.split("\n\n")
        if block
    ]


@pytest.mark.parametrize(("name", "tolerance"), [("format1", 1e-3), ("format1_int8", 0.1)])
def test_exported_models_reply_as_version_0_1_did(name: str, tolerance: float) -> None:
    bot = Chatbot.load(Run(DATA / name))
    decoding = bot.config.decoding.model_copy(update={"method": "beam", "n_best": 3})
    replies = bot.replies(EXPECTED["chat_input"].splitlines(), decoding)
    found = [[(one.score, " ".join(one.words)) for one in reply.hypotheses] for reply in replies if reply.hypotheses]
    expected = blocks(EXPECTED["chat_output"])
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert [score for score, _ in ours] == pytest.approx([score for score, _ in theirs], abs=tolerance)
        if name == "format1":
            assert [tokens for _, tokens in ours] == [tokens for _, tokens in theirs]


def test_the_shelf_is_small() -> None:
    size = sum(file.stat().st_size for folder in (DATA, OLD_RUN) for file in folder.rglob("*") if file.is_file())
    assert size <= 300_000
