"""Shared by the tests of the corpus package."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.corpus import END_OF_CONVERSATION, SPECIAL_WORDS, Vocabulary
from tests.corpus.raw import dump


@pytest.fixture(autouse=True)
def _user_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tests out of the real user cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("user-cache")))


@pytest.fixture
def corpus_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a corpus file of conversations given as strings with `` / `` between utterances."""

    def write(*conversations: str, name: str = "corpus.txt") -> Path:
        lines = [line for conversation in conversations for line in (*conversation.split(" / "), END_OF_CONVERSATION)]
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write


@pytest.fixture
def letters() -> Vocabulary:
    """The words a (4) to j (13)."""
    return Vocabulary([*SPECIAL_WORDS, *"abcdefghij"])


@pytest.fixture(scope="session")
def dailydialog() -> Path:
    """The folder of DailyDialog."""
    data = os.environ.get("SEQ2SEQ_CHAT_DATA")
    if not data:
        pytest.skip("SEQ2SEQ_CHAT_DATA does not name the folder with dailydialog/")
    folder = Path(data, "dailydialog")
    if not folder.is_dir():
        pytest.skip(f"{folder} does not exist")
    return folder


@pytest.fixture
def months(tmp_path: Path) -> Path:
    folder = tmp_path / "months"
    folder.mkdir()
    dump(folder / "RC_2010-01", range(1, 2000))
    dump(folder / "RC_2010-02", range(2000, 4000))
    return folder
