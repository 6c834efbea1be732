"""Anonymized messages: names, numbers, addresses and links give way to placeholders, one word each."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LINK = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_MENTION = re.compile(r"@[\w.]+")
_NUMBER = re.compile(r"\+?\d(?:[\d\s().:,/-]*\d)?")
_WORD = re.compile(r"[^\W\d_]+")
_NAMES = re.compile(r"NAME(?: NAME)+")


class Anonymizer:
    """Replaces links, e-mail addresses, numbers, and the names of the people of a chat in any case.

    Each word of a name counts as a name. In scripts without cases, most of which have no spaces between words, a name
    is also found within a word.

    Args:
        people: The names of all who wrote.
    """

    def __init__(self, people: Iterable[str]) -> None:
        words = {word for name in people for word in _WORD.findall(name) if len(word) > 1}
        self._names = {word.casefold() for word in words}
        caseless = sorted((word for word in words if word.upper() == word.lower()), key=len, reverse=True)
        self._within = re.compile("|".join(map(re.escape, caseless))) if caseless else None

    def __call__(self, text: str) -> str:
        text = _MENTION.sub("NAME", _EMAIL.sub("ADDRESS", _LINK.sub("LINK", text)))
        if self._within is not None:
            text = self._within.sub("NAME", text)
        text = _WORD.sub(lambda word: "NAME" if word[0].casefold() in self._names else word[0], text)
        return _NAMES.sub("NAME", _NUMBER.sub("NUMBER", text))
