"""Tokens as they stand, separated by white space: for text that has been tokenized already."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from seq2seq_chat.data.tokenizers.tokenizer import Tokenizer

_SURROGATE = re.compile("[\ud800-\udfff]")


class WhitespaceTokenizer(Tokenizer):
    """Splits at white space and changes nothing, except that surrogates, which UTF-8 cannot encode, become U+FFFD."""

    name = "whitespace"

    def encode(self, text: str) -> list[str]:
        """The words."""
        return _SURROGATE.sub("\ufffd", text).split()

    def encode_lines(self, texts: Sequence[str]) -> list[str]:
        """The words of each text, separated by single spaces."""
        lines = [" ".join(text.split()) for text in texts]
        return [line if line.isascii() else _SURROGATE.sub("\ufffd", line) for line in lines]

    def decode(self, tokens: Iterable[str]) -> str:
        """The words, separated by spaces."""
        return " ".join(tokens)
