"""Where a reader expects spaces between words, punctuation marks and symbols of any language."""

from __future__ import annotations

import enum
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

IDEOGRAPH = (
    r"[[\p{Han}\p{Hiragana}\p{Katakana}\p{Yi}\p{Tangut}\p{Nushu}\p{Khitan_Small_Script}"
    r"\u3006\u3031-\u3035\u30FC\uFF70]--\p{M}]"
)
"""A pattern for the characters of scripts without spaces of which each is a token."""


class _Kind(enum.Enum):
    """What a token is to its neighbors."""

    ADDRESS = enum.auto()  # of the web
    WORD = enum.auto()
    NUMBER = enum.auto()
    IDEOGRAPH = enum.auto()  # no space before or after another one, a number, or a punctuation mark
    COMPLEX = enum.auto()  # Thai and others: no space before or after another one
    OPENING = enum.auto()  # no space after it
    CLOSING = enum.auto()  # no space before it
    HYPHEN = enum.auto()  # no spaces between two words
    RANGE = enum.auto()  # no spaces between two numbers
    CURRENCY = enum.auto()  # no space before a number
    PREFIX = enum.auto()  # no space before a word
    WIDE = enum.auto()  # East Asian punctuation marks, which are as wide as an ideograph: no spaces at all
    PUNCTUATION = enum.auto()
    SYMBOL = enum.auto()
    SPECIAL = enum.auto()  # a special word, such as <unknown>, which no text contains


# The first pattern that matches the start of a token determines its kind.
KINDS = {
    _Kind.SPECIAL: r"<\w+>",
    _Kind.ADDRESS: r"https?://|www\.",
    _Kind.IDEOGRAPH: IDEOGRAPH,
    _Kind.COMPLEX: r"[[\p{Line_Break=SA}\p{Tibetan}]&&[\p{L}\p{M}]]",
    _Kind.NUMBER: r"\p{Nd}",
    _Kind.WORD: r"[\p{L}\p{N}\p{M}]",
    _Kind.WIDE: r"[\u3001-\u303F\u30FB\uFE10-\uFE1F\uFE30-\uFE4F\uFF01-\uFF65]",
    _Kind.HYPHEN: r"[\-‐‑\u058A\u05BE\/_]",
    _Kind.RANGE: "–",
    _Kind.CURRENCY: r"\p{Sc}",
    _Kind.PREFIX: r"[#@]\Z",
    _Kind.OPENING: r"[\p{Ps}\p{Pi}¿¡]",
    _Kind.CLOSING: r"[\p{Terminal_Punctuation}\p{Pe}\p{Pf}…‥%‰°·′″\u055A-\u055E\u05F3\u05F4]",
    _Kind.PUNCTUATION: r"\p{P}",
}
# Quotation marks that may begin a quotation, and the marks that then end it. ” and » begin one in some languages.
_QUOTES = {
    '"': '"',
    "'": "'",
    "“": "”",
    "„": "“”",
    "”": "”",
    "«": "»",
    "»": "«»",
    "‹": "›",
    "›": "‹›",
    "‘": "’",
    "‚": "‘’",
}
_STRAIGHT = "\"'"


def join_tokens(tokens: Sequence[str], encode: Callable[[str], list[str]]) -> str:
    """The tokens, separated by spaces where a reader expects them, and where tokens would become others without.

    Args:
        encode: Returns the tokens of a string without white space.
    """
    kinds = _kinds(tokens)
    parts = list(tokens[:1])
    for index in range(1, len(tokens)):
        pair = [tokens[index - 1], tokens[index]]
        is_attached = _is_attached(index, tokens, kinds) and (
            _Kind.SPECIAL in kinds[index - 1 : index + 1] or encode("".join(pair)) == pair
        )
        parts.append(tokens[index] if is_attached else f" {tokens[index]}")
    return "".join(parts)


def _is_attached(index: int, tokens: Sequence[str], kinds: Sequence[_Kind]) -> bool:
    """Whether a reader expects no space before a token; ``index`` is at least 1."""
    left, right = kinds[index - 1], kinds[index]
    words = {_Kind.WORD, _Kind.NUMBER, _Kind.SPECIAL}
    if right is _Kind.CLOSING or left is _Kind.OPENING or _Kind.WIDE in (left, right):
        return True
    if _Kind.IDEOGRAPH in (left, right):
        return not {left, right} & {_Kind.WORD, _Kind.COMPLEX, _Kind.SYMBOL, _Kind.SPECIAL}
    for connector, neighbors in ((_Kind.HYPHEN, words), (_Kind.RANGE, {_Kind.NUMBER})):
        middle = index if right is connector else index - 1
        if (
            kinds[middle] is connector
            and 0 < middle < len(kinds) - 1
            and {*kinds[middle - 1 : middle + 2 : 2]} <= neighbors
        ):
            return True
    if tokens[index - 1] == "." and _is_abbreviation(tokens[max(0, index - 2) : index + 2]):
        return True
    if (left is _Kind.CURRENCY and right is _Kind.NUMBER) or (left is _Kind.PREFIX and right in words):
        return True
    return left is right and (left is _Kind.COMPLEX or (left not in words and tokens[index - 1] == tokens[index]))


def _is_abbreviation(tokens: Sequence[str]) -> bool:
    """Whether four tokens are like ``a . m .``; the initials of a name, which are capitals, have spaces."""
    letters = tokens[::2]
    return list(tokens[1::2]) == [".", "."] and all(len(letter) == 1 and letter.islower() for letter in letters)


@functools.lru_cache(1 << 16)
def _kind(token: str) -> _Kind:
    match = _kind_pattern().match(token)
    return _Kind[match.lastgroup] if match and match.lastgroup else _Kind.SYMBOL


@functools.cache
def _kind_pattern() -> regex.Pattern[str]:
    import regex

    return regex.compile("|".join(f"(?P<{kind.name}>{pattern})" for kind, pattern in KINDS.items()), regex.VERSION1)


def _kinds(tokens: Sequence[str]) -> list[_Kind]:
    """The kind of each token. A quotation mark opens or closes a quotation; an apostrophe closes."""
    kinds = [_kind(token) for token in tokens]
    remaining = Counter(token for token in tokens if token in _QUOTES)
    expected: list[str] = []  # what ends each of the quotations that have begun
    for index, token in enumerate(tokens):
        if token not in _QUOTES:
            continue
        remaining[token] -= 1
        depth = next((depth for depth in reversed(range(len(expected))) if token in expected[depth]), None)
        if depth is not None:
            del expected[depth:]
            kinds[index] = _Kind.CLOSING
        elif any(remaining[closing] for closing in _QUOTES[token]):
            expected.append(_QUOTES[token])
            kinds[index] = _Kind.OPENING
        elif token in _STRAIGHT:  # one without a partner
            is_possessive = token == "'" and index > 0 and tokens[index - 1].endswith("s")  # dogs' tails
            kinds[index] = _Kind.CLOSING if is_possessive or index == len(tokens) - 1 else _Kind.OPENING
    return kinds
