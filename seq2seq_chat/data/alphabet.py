"""Detect text whose letters the tokenizer removes, such as Cyrillic or Chinese."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable
from typing import NamedTuple

from seq2seq_chat.data.corpus_file import CorpusError

logger = logging.getLogger(__name__)

SAMPLE_UTTERANCES = 1000
"""Number of utterances to count the letters of."""

_ERROR_BELOW, _WARNING_BELOW = 0.1, 0.5  # share of letters kept


class Letters(NamedTuple):
    """The number of letters and digits in a raw text, and of those left after cleaning."""

    raw: int
    kept: int

    @classmethod
    def from_texts(cls, raw: Iterable[str], cleaned: Iterable[str]) -> Letters:
        """Count those of raw and of cleaned utterances."""
        return cls(*(sum(sum(map(str.isalnum, text)) for text in texts) for texts in (raw, cleaned)))


def check_letters(name: str, letters: Letters) -> None:
    """Warn if cleaning removes more than half of the letters of a text.

    Raises:
        CorpusError: It removes nearly all of them.
    """
    if letters.kept >= _WARNING_BELOW * letters.raw:
        return
    message = (
        f"cleaning removes {100 - 100 * letters.kept / letters.raw:.0f} % of the letters in {name}. It keeps only "
        "a to z, with or without accents, digits and . , ! ?, so the text must be in the Latin alphabet"
    )
    if letters.kept < _ERROR_BELOW * letters.raw:
        raise CorpusError(f"{message[0].upper()}{message[1:]}.")
    _warn_once(message)


@functools.cache  # a training run reads its corpus twice
def _warn_once(message: str) -> None:
    logger.warning("%s", message)
