"""The interface of all tokenizers, and two that change nothing: tokens as they stand, and characters."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from seq2seq_chat.system.errors import UserError


class TokenizerError(UserError):
    """A tokenizer that cannot be trained, or an invalid tokenizer file."""


class Tokenizer(ABC):
    """Turns text into tokens and back. A token is not empty and contains no white space.

    Attributes:
        name: The value of ``data.tokenizer``.
        lossless: Whether ``decode(encode(text)) == text`` for every text.
        keeps_line_breaks: Whether ``encode`` has tokens for line breaks; if not, it is meant for single lines.
        cleans: Whether `prepare` writes the tokens rather than the text into corpus files, since nothing that
            ``encode`` removes is of use. Then ``encode`` splits these lines at the spaces.
        lowercase: Whether ``encode`` converts letters to lower case because of ``data.lowercase``.
        normalize_apostrophes: Whether it takes typographic apostrophes for typewriter apostrophes.
        tokens: All tokens that ``encode`` can return, most frequent first; None if there is no limit.
        file_content: The contents of the tokenizer's file; None if it does not need one.
    """

    name: ClassVar[str]
    lossless: ClassVar[bool] = False
    keeps_line_breaks: ClassVar[bool] = False
    cleans: ClassVar[bool] = False
    lowercase: bool = False
    normalize_apostrophes: bool = False
    tokens: Sequence[str] | None = None
    file_content: bytes | None = None

    @abstractmethod
    def encode(self, text: str) -> list[str]:
        """The tokens of a text, which may be any string."""

    @abstractmethod
    def decode(self, tokens: Iterable[str]) -> str:
        """The text of tokens as people write it: the inverse of ``encode``, except for what that removes."""

    def encode_lines(self, texts: Sequence[str]) -> list[str]:
        """The tokens of each text, separated by single spaces; faster than ``encode`` for many texts."""
        return [" ".join(self.encode(text)) for text in texts]

    def count_removed(self, texts: Sequence[str]) -> int:
        """How many words, or else characters, ``encode`` removes from the texts; 0 if they are not counted."""
        return 0


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


SURROGATE = re.compile("[\ud800-\udfff]")


class WhitespaceTokenizer(Tokenizer):
    """Splits at white space and changes nothing, except that surrogates, which UTF-8 cannot encode, become U+FFFD."""

    name = "whitespace"

    def encode(self, text: str) -> list[str]:
        """The words."""
        return SURROGATE.sub("\ufffd", text).split()

    def encode_lines(self, texts: Sequence[str]) -> list[str]:
        """The words of each text, separated by single spaces."""
        lines = [" ".join(text.split()) for text in texts]
        return [line if line.isascii() else SURROGATE.sub("\ufffd", line) for line in lines]

    def decode(self, tokens: Iterable[str]) -> str:
        """The words, separated by spaces."""
        return " ".join(tokens)


_NAMES = {" ": "<space>", "\t": "<tab>", "\n": "<newline>", "\r": "<return>"}
_CHARACTERS = {token: character for character, token in _NAMES.items()}
_CODE_TOKEN = re.compile(r"<U\+([0-9A-F]{4,6})>")
# White space, characters that are invisible by definition, marks, and format characters. Private use (Co) is visible.
# Unassigned characters (Cn) are not among them, so that a character of a future Unicode version keeps its token.
_INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cs", "Mc", "Me", "Mn", "Zl", "Zp", "Zs"}
_INVISIBLE_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"  # Hangul fillers; the blank Braille pattern


class _TokenTable(dict[str, str]):
    """Maps a character to its token."""

    def __missing__(self, character: str) -> str:
        token = _NAMES.get(character, character)
        if token == character and not _is_visible(character):
            token = f"<U+{ord(character):04X}>"
        self[character] = token
        return token


def _is_visible(character: str) -> bool:
    """Whether a character can be seen on its own."""
    noncharacter = ord(character) & 0xFFFE == 0xFFFE or "\ufdd0" <= character <= "\ufdef"
    return not (
        character.isspace()
        or noncharacter
        or character in _INVISIBLE_LETTERS
        or unicodedata.category(character) in _INVISIBLE_CATEGORIES
    )


_TOKENS = _TokenTable()


class CharacterTokenizer(Tokenizer):
    """Takes each code point for a token.

    ``<space>``, ``<tab>``, ``<newline>`` and ``<return>`` stand for these, and ``<U+0301>`` for a character that
    cannot be seen on its own, so that a vocabulary file has one visible token per line.
    """

    name = "character"
    lossless = True
    keeps_line_breaks = True

    def encode(self, text: str) -> list[str]:
        """The token of each character."""
        return list(map(_TOKENS.__getitem__, text))

    def encode_lines(self, texts: Sequence[str]) -> list[str]:
        """The tokens of each text, separated by single spaces."""
        find = _TOKENS.__getitem__
        return [" ".join(map(find, text)) for text in texts]

    def decode(self, tokens: Iterable[str]) -> str:
        """The text of the characters."""
        return "".join(map(_character, tokens))


def _character(token: str) -> str:
    """The character of a token, or the token itself if it is not one of this tokenizer's."""
    if len(token) > 1:
        if token in _CHARACTERS:
            return _CHARACTERS[token]
        code = _CODE_TOKEN.fullmatch(token)
        if code and int(code[1], 16) < 0x110000:
            return chr(int(code[1], 16))
    return token
