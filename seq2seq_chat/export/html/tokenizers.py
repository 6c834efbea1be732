"""Tokenizers as the JavaScript in ``javascript/`` creates them: a name, and what it cannot derive itself."""

from __future__ import annotations

import functools
import re
import sys
from itertools import groupby
from typing import Any

from seq2seq_chat.data.tokenizers import Tokenizer
from seq2seq_chat.data.tokenizers.subword import SubwordTokenizer
from seq2seq_chat.data.tokenizers.unicode import KEPT_OR_INVISIBLE, TOKEN, UnicodeTokenizer
from seq2seq_chat.data.tokenizers.unicode_spacing import KINDS

_PROPERTY = re.compile(r"\\p\{([^}]+)\}")
_UNSUPPORTED = ("Line_Break=SA", "Indic_Syllabic_Category=Invisible_Stacker", "Prepended_Concatenation_Mark")
"""Properties of characters that regular expressions of JavaScript do not have."""
_SCRIPTS = (
    "Armenian",
    "Han",
    "Hebrew",
    "Hiragana",
    "Katakana",
    "Khitan_Small_Script",
    "Nushu",
    "Tangut",
    "Tibetan",
    "Yi",
)


def describe_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    """The description for ``createTokenizer`` of ``tokenizers.js``."""
    description: dict[str, Any] = {"name": tokenizer.name}
    if isinstance(tokenizer, UnicodeTokenizer):
        description |= {"lowercase": tokenizer.lowercase, "patterns": _unicode_patterns()}
    if isinstance(tokenizer, SubwordTokenizer):
        scores = tokenizer.scores()
        # byte pair encoding numbers its subwords 0, -1, -2 …; the scores of a unigram model are log-probabilities
        model = "bpe" if all(score.is_integer() for score in scores.values()) else "unigram"
        description |= {"pieces": list(scores.items()), "model": model}
    return description


@functools.cache
def _unicode_patterns() -> dict[str, Any]:
    return {
        "token": javascript_pattern(TOKEN),
        "kept_or_invisible": javascript_pattern(KEPT_OR_INVISIBLE),
        "kinds": {kind.name: javascript_pattern(pattern) for kind, pattern in KINDS.items()},
    }


def javascript_pattern(pattern: str) -> str:
    """A pattern of the Python package ``regex`` as one for JavaScript with the flag ``v``.

    Possessive quantifiers become greedy ones, which match the same where nothing follows that could make them give up
    characters.
    """
    pattern = (
        pattern.replace("++", "+").replace("*+", "*").replace(r"\Z", "$").replace(r"\p{RI}", r"\p{Regional_Indicator}")
    )
    pattern = re.sub(r"\\U000([0-9A-F]{5})", r"\\u{\1}", pattern)
    return _PROPERTY.sub(lambda match: _javascript_property(match[1]), pattern)


def _javascript_property(name: str) -> str:
    if name in _UNSUPPORTED:
        return _character_class(name)
    return rf"\p{{Script={name}}}" if name in _SCRIPTS else rf"\p{{{name}}}"


@functools.cache
def _character_class(name: str) -> str:
    """The characters with a property as a class of ranges."""
    import regex

    has_property = regex.compile(rf"\p{{{name}}}").match
    codes = [code for code in range(sys.maxunicode + 1) if has_property(chr(code))]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0])]
    return "".join(["[", *(rf"\u{{{run[0]:X}}}-\u{{{run[-1]:X}}}" for run in runs), "]"])
