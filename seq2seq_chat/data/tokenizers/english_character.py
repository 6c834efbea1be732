"""The characters of clean English text, as earlier versions split it at character level."""

from __future__ import annotations

from collections.abc import Iterable

from seq2seq_chat.data.tokenizers.english import clean
from seq2seq_chat.data.tokenizers.tokenizer import Tokenizer

SPACE = "<space>"
"""The token of a space."""


class EnglishCharacterTokenizer(Tokenizer):
    """Cleans a text as the English tokenizer does; each remaining character is a token."""

    name = "english_character"

    def encode(self, text: str) -> list[str]:
        """The characters of the cleaned text, ``<space>`` for spaces."""
        return [SPACE if character == " " else character for character in clean(text)]

    def decode(self, tokens: Iterable[str]) -> str:
        """The text of the characters."""
        return "".join(" " if token == SPACE else token for token in tokens)
