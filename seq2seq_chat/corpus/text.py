"""Cleaning and tokenising: the same for preparing, training, evaluating and chatting."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

Level = Literal["word", "character"]

SPACE = "<space>"
"""The token of a space at character level: tokens themselves never hold white space."""

_WORD = re.compile(r"[a-z0-9]+|[.,!?]")


def clean(text: str) -> str:
    """Reduce text to the words and punctuation marks that the model knows.

    Accents are dropped (``café`` gives ``cafe``), letters become lower case, everything other
    than ``a-z 0-9 . , ! ?`` becomes a space, each punctuation mark is a word of its own, and
    words are separated by single spaces. Cleaning clean text changes nothing.
    """
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in decomposed if not unicodedata.category(c).startswith("M"))
    return " ".join(_WORD.findall(text.lower()))


def tokenize(text: str, level: Level) -> list[str]:
    """Clean text and cut it into tokens: its words, or its characters with ``<space>``.

    Raises:
        ValueError: ``level`` is neither ``word`` nor ``character``.
    """
    cleaned = clean(text)
    if level == "word":
        return cleaned.split()
    if level == "character":
        return [SPACE if character == " " else character for character in cleaned]
    raise ValueError(f"level must be 'word' or 'character', not {level!r}")


def detokenize(tokens: Iterable[str], level: Level) -> str:
    """Join tokens to text: the inverse of ``tokenize`` on clean text.

    Raises:
        ValueError: ``level`` is neither ``word`` nor ``character``.
    """
    if level == "word":
        return " ".join(tokens)
    if level == "character":
        return "".join(" " if token == SPACE else token for token in tokens)
    raise ValueError(f"level must be 'word' or 'character', not {level!r}")
