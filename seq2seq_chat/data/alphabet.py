"""Tell a text whose letters the tokenizer removes, such as one in Cyrillic or Chinese."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable
from typing import NamedTuple

from seq2seq_chat.data.corpus_file import CorpusError

logger = logging.getLogger(__name__)

SAMPLE_UTTERANCES = 1000
"""Utterances that are enough to judge a text."""

_REFUSED, _REPORTED = 0.1, 0.5


class Letters(NamedTuple):
    """The number of letters and digits in a raw text, and of those left after cleaning."""

    raw: int
    kept: int

    @classmethod
    def of(cls, raw: Iterable[str], cleaned: Iterable[str]) -> Letters:
        """Those of raw and of cleaned utterances."""
        return cls(*(sum(sum(map(str.isalnum, text)) for text in texts) for texts in (raw, cleaned)))


def check_letters(name: str, letters: Letters) -> None:
    """Warn if cleaning removes more than half of the letters of a text.

    Raises:
        CorpusError: It removes nearly all of them.
    """
    if letters.kept >= _REPORTED * letters.raw:
        return
    message = (
        f"cleaning removes {100 - 100 * letters.kept / letters.raw:.0f} % of the letters in {name}. It keeps only "
        "a to z, with or without accents, digits and . , ! ?, so the text must be in the Latin alphabet"
    )
    if letters.kept < _REFUSED * letters.raw:
        raise CorpusError(f"{message[0].upper()}{message[1:]}.")
    _warn_once(message)


@functools.cache  # a training reads its corpus twice
def _warn_once(message: str) -> None:
    logger.warning("%s", message)
