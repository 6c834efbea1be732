"""Shared by the tests of the data package."""

from __future__ import annotations

import pytest

from seq2seq_chat.data.vocabulary import SPECIAL_WORDS, Vocabulary


@pytest.fixture(autouse=True)
def _user_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tests out of the real user cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("user-cache")))


@pytest.fixture
def letters() -> Vocabulary:
    """The words a (4) to j (13)."""
    return Vocabulary([*SPECIAL_WORDS, *"abcdefghij"])
