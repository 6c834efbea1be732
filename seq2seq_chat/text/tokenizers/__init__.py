"""Tokenizers: text to tokens and back, one per module."""

from __future__ import annotations

from typing import Literal, NamedTuple

from seq2seq_chat.text.tokenizers.english import EnglishCharacterTokenizer, EnglishTokenizer, ThesisTokenizer
from seq2seq_chat.text.tokenizers.subword import SubwordTokenizer
from seq2seq_chat.text.tokenizers.subword_training import SubwordModel
from seq2seq_chat.text.tokenizers.tokenizer import CharacterTokenizer, Tokenizer, TokenizerError, WhitespaceTokenizer
from seq2seq_chat.text.tokenizers.unicode import UnicodeTokenizer

__all__ = [
    "TOKENIZER_FILE",
    "SubwordModel",
    "SubwordTokenizer",
    "Tokenizer",
    "TokenizerError",
    "TokenizerName",
    "TokenizerSettings",
    "create_tokenizer",
]

TOKENIZER_FILE = "tokenizer.json"

_SIMPLE_TOKENIZERS: dict[str, type[Tokenizer]] = {
    tokenizer.name: tokenizer
    for tokenizer in (
        CharacterTokenizer,
        EnglishCharacterTokenizer,
        EnglishTokenizer,
        ThesisTokenizer,
        WhitespaceTokenizer,
    )
}

TokenizerName = Literal["english", "thesis", "unicode", "whitespace", "character", "subword", "english_character"]


class Tokenizers(NamedTuple):
    """The tokenizers of source and target, the same object if they share it."""

    source: Tokenizer
    target: Tokenizer


class TokenizerSettings(NamedTuple):
    """What determines a tokenizer, apart from its file."""

    name: TokenizerName = "english"
    lowercase: bool = False  # unicode only
    subword_model: SubwordModel = "unigram"  # subword only, when it is trained
    normalize_apostrophes: bool = False  # unicode only


def create_tokenizer(settings: TokenizerSettings, file: bytes | None = None, origin: str = "") -> Tokenizer:
    """A tokenizer that needs no file, or one with the contents of its file.

    Args:
        origin: Names the file in error messages.

    Raises:
        TokenizerError: The file is damaged, or belongs to another tokenizer or version.
        ValueError: There is no such tokenizer, or it needs a file.
    """
    if settings.name == "unicode":
        return UnicodeTokenizer(settings.lowercase, settings.normalize_apostrophes)
    if settings.name == "subword" and file is not None:
        return SubwordTokenizer.load(file, origin)
    try:
        return _SIMPLE_TOKENIZERS[settings.name]()
    except KeyError:
        raise ValueError(f"no tokenizer {settings.name} without a file") from None
