"""What a subword can be, and the tokens of bytes for the rest."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

WORD_START = "▁"
"""U+2581, which stands for a space in a subword."""
BYTES = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)}
"""The token of each byte → the byte."""


_JOINERS = ("\u200c", "\u200d")


def is_plain(text: str) -> bool:
    """Whether all characters of a text without spaces may be part of a subword. The others become bytes.

    These are characters that a vocabulary file cannot have, others that are invisible except the joiners of Indic
    and Arabic scripts and of emoji, the character of ``WORD_START`` itself, and "<", so that no subword looks like
    the token of a byte or a special word.
    """
    return (text.isprintable() and WORD_START not in text and "<" not in text) or text in _JOINERS


def segments(word: str) -> Iterable[tuple[bool, str]]:
    """The longest parts of a word that are (True) or are not (False) plain."""
    if is_plain(word):
        return [(True, word)] if word else []
    return ((plain, "".join(part)) for plain, part in groupby(word, is_plain))
