"""Characters, all of them: case, spaces and line ends included."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from seq2seq_chat.text.tokenizers.tokenizer import Tokenizer

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
    """Each code point is a token.

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
