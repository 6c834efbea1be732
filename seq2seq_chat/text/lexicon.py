"""A lexicon: target words for source words, in a file of two or three columns separated by tabs."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.lines import numbered_lines
from seq2seq_chat.system.tables import pluralize
from seq2seq_chat.text.tokenizers import Tokenizer


class LexiconError(UserError):
    """An invalid lexicon file."""


class _Row(NamedTuple):
    source: str
    target: str
    weight: float  # probability or count


class Lexicon:
    """Target words for source words.

    Args:
        entries: Target text by source token.
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        self._entries = dict(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, token: str) -> str | None:
        """The target text for a source token, or else for the token in lower case; None if there is no entry."""
        return self._entries.get(token, self._entries.get(token.lower()))

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the entries."""
        return hashlib.sha256(json.dumps(self._entries, sort_keys=True).encode()).hexdigest()

    @classmethod
    def load(cls, path: str | Path, tokenizer: Tokenizer) -> Lexicon:
        """Read a file, plain or compressed: source word, target words and, if given, their probability or count.

        Of several entries for a word, the most probable one counts; of equally probable ones, the first. A row without
        a number counts as 1. Blank lines, and source words that are several tokens, are left out.

        Args:
            tokenizer: The source's, whose tokens are looked up.

        Raises:
            LexiconError: The file cannot be read, is not UTF-8 or has no entries, or a row is not an entry.
        """
        best: dict[str, _Row] = {}
        for number, line in numbered_lines(path, LexiconError, progress=True):
            if line.strip():
                row = _parse(line, f"{path}, line {number}")
                if row.source not in best or row.weight > best[row.source].weight:
                    best[row.source] = row
        if not best:
            raise LexiconError(f"{path} has no entries. Write a source word, a tab and its target word per line.")
        entries: dict[str, _Row] = {}
        for token, row in zip(tokenizer.encode_lines(list(best)), best.values(), strict=True):
            is_word = token and " " not in token
            if is_word and (token not in entries or row.weight > entries[token].weight):
                entries[token] = row
        return cls({token: row.target for token, row in entries.items()})


def _parse(line: str, where: str) -> _Row:
    """The entry in a row. Raises LexiconError."""
    columns = [column.strip() for column in line.split("\t")]
    if len(columns) not in (2, 3):
        raise LexiconError(
            f"{where}: {pluralize(len(columns), 'column')} instead of a source word, a target word and, "
            "if known, its probability or count, separated by tabs."
        )
    for name, column in zip(("source", "target"), columns, strict=False):
        if not column:
            raise LexiconError(f"{where}: the {name} word is empty. Remove the line.")
    try:
        weight = float(columns[2]) if len(columns) == 3 else 1.0
    except ValueError:
        weight = math.nan
    if not 0 <= weight < math.inf:
        raise LexiconError(f"{where}: {columns[2]!r} is not a probability or count. Write a number of at least 0.")
    return _Row(columns[0], columns[1], weight)
