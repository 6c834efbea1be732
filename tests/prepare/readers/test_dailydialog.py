"""Prepare and load the real DailyDialog."""

import re
from pathlib import Path

import pytest

from seq2seq_chat.prepare.pipeline import prepare
from seq2seq_chat.prepare.settings import PrepareSettings


@pytest.fixture(scope="module")
def prepared(dailydialog: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("dailydialog")
    prepare(PrepareSettings("dailydialog", vocabulary_size=8000), [dailydialog], output)
    return output


def plain_conversations(path: Path) -> list[list[str]]:
    parts = path.read_text().split("<<<<<END-CONV>>>>>\n")
    return [part.splitlines() for part in parts[:-1]]


@pytest.mark.parametrize(("split", "dialogues"), [("train", 11_118), ("validation", 1000), ("test", 1000)])
def test_official_split(prepared: Path, split: str, dialogues: int) -> None:
    assert len(plain_conversations(prepared / f"{split}.txt")) == dialogues


def test_text_is_cleaned(prepared: Path) -> None:
    allowed = re.compile(r"([a-z0-9]+|[.,!?])( ([a-z0-9]+|[.,!?]))*|<<<<<END-CONV>>>>>")
    lines = (prepared / "test.txt").read_text().splitlines()
    assert all(allowed.fullmatch(line) for line in lines)
