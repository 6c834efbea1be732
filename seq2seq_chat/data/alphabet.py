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

# Shares of letters kept. The English tokenizer removes hardly any from English; the others are meant to remove more.
_ERROR_BELOW, _WARNING_BELOW, _WARNING_BELOW_ENGLISH = 0.1, 0.5, 0.998


class Letters(NamedTuple):
    """The number of letters and digits in a raw text, and of those left after cleaning."""

    raw: int
    kept: int

    @classmethod
    def from_texts(cls, raw: Iterable[str], cleaned: Iterable[str]) -> Letters:
        """Count those of raw and of cleaned utterances."""
        return cls(*(sum(sum(map(str.isalnum, text)) for text in texts) for texts in (raw, cleaned)))


def check_letters(name: str, tokenizer: str, letters: Letters) -> None:
    """Warn if a tokenizer removes more than half of the letters of a text, or the English one more than 0.2 %.

    Raises:
        CorpusError: It removes nearly all of them.
    """
    warning_below = _WARNING_BELOW_ENGLISH if tokenizer.startswith("english") else _WARNING_BELOW
    if letters.kept >= warning_below * letters.raw:
        return
    removed = f"{100 - 100 * letters.kept / letters.raw:.1f}".removesuffix(".0")
    message = (
        f"the {tokenizer} tokenizer removes {removed} % of the letters in {name}. "
        "Use the unicode tokenizer for languages other than English"
    )
    if letters.kept < _ERROR_BELOW * letters.raw:
        raise CorpusError(f"{message[0].upper()}{message[1:]}.")
    _warn_once(message)


@functools.cache  # a training run reads its corpus twice
def _warn_once(message: str) -> None:
    logger.warning("%s", message)
