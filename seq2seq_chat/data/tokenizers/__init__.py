"""Tokenizers: text to tokens and back, one per module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from seq2seq_chat.data.tokenizers.character import CharacterTokenizer
from seq2seq_chat.data.tokenizers.english import EnglishTokenizer

Level = Literal["word", "character"]
"""The values of ``data.level``: what a token is."""


class Tokenizer(Protocol):
    """Turns text into tokens and back. A token never contains white space."""

    @property
    def name(self) -> str:
        """The value of ``data.level``."""

    def encode(self, text: str) -> list[str]:
        """The tokens of a text."""

    def decode(self, tokens: Iterable[str]) -> str:
        """The text of tokens: the inverse of ``encode``, except for cleaning."""


_TOKENIZERS: dict[str, Tokenizer] = {
    tokenizer.name: tokenizer for tokenizer in (EnglishTokenizer(), CharacterTokenizer())
}


def get_tokenizer(name: str) -> Tokenizer:
    """The tokenizer with this name.

    Raises:
        ValueError: There is no such tokenizer.
    """
    if name not in _TOKENIZERS:
        raise ValueError(f"tokenizer must be {' or '.join(map(repr, _TOKENIZERS))}, not {name!r}")
    return _TOKENIZERS[name]
