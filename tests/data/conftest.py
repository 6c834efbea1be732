"""Shared by the tests of the data package."""

from __future__ import annotations

import pytest

from seq2seq_chat.text.codec import Codecs, TextCodec
from seq2seq_chat.text.tokenizers.english import EnglishTokenizer
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary


@pytest.fixture(autouse=True)
def _user_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tests out of the real user cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("user-cache")))


@pytest.fixture
def letters() -> Codecs:
    """The words a (4) to j (13)."""
    return Codecs.shared(TextCodec(EnglishTokenizer(), Vocabulary([*SPECIAL_WORDS, *"abcdefghij"])))
