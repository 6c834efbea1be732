"""Remember the tokens of frequent words, which makes a slow tokenizer as fast as a look-up."""

from __future__ import annotations

from collections.abc import Callable

_MAX_WORDS = 1 << 18
_MAX_LENGTH = 32  # characters of a word; longer ones are rare


class TokenCache(dict[str, str]):
    """Maps a word to its tokens, separated by single spaces. Memory is bounded."""

    def __init__(self, encode: Callable[[str], list[str]]) -> None:
        """``encode`` returns the tokens of a word."""
        super().__init__()
        self._encode = encode

    def __missing__(self, word: str) -> str:
        tokens = " ".join(self._encode(word))
        if len(word) <= _MAX_LENGTH:
            if len(self) >= _MAX_WORDS:
                self.clear()
            self[word] = tokens
        return tokens
