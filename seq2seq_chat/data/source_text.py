"""A source as tokens and as text, also with the words that are not in the vocabulary."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.samples import Sample


class SourceText(NamedTuple):
    """The tokens of a source, and the text of its last turn as it was written."""

    tokens: list[str]
    text: str


def source_text(corpus: Dataset, index: int, sample: Sample) -> SourceText:
    """The source of a sample. In turns before the last one, unknown words are ``<unknown>``.

    Args:
        index: The number of the sample in the corpus.
        sample: Its texts and tokens.
    """
    tokens = corpus.codecs.source.vocabulary.tokens(corpus.source_ids(index))
    return SourceText(tokens[: len(tokens) - len(sample.source_tokens)] + sample.source_tokens, sample.source)


def original_spelling(tokens: Sequence[str], text: str) -> list[str]:
    """How each token is written in a text, with its capitals and accents: ``zoe`` may be ``Zoë``.

    The last token is looked for first, so that a text may have more tokens before the given ones. A token that is
    not found, as one of another text, is returned as it is.
    """
    folded, positions = "", []
    for position, character in enumerate(text):
        plain = _fold(character)
        folded += plain
        positions += [position] * len(plain)
    positions.append(len(text))
    spelled, end = [], len(folded)
    for token in reversed(tokens):
        plain = _fold(token)
        start = folded.rfind(plain, 0, end) if plain else -1
        if start < 0:
            spelled.append(token)
        else:
            spelled.append(text[positions[start] : positions[start + len(plain)]])
            end = start
    return spelled[::-1]


def _fold(text: str) -> str:
    """Lower case, without accents."""
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(character for character in decomposed if not unicodedata.combining(character))
