"""Text to word ids and back, for each side of a sample: a tokenizer and a vocabulary."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq_chat.config import Data, TextSettings
from seq2seq_chat.system.errors import cut
from seq2seq_chat.system.files import write_atomically
from seq2seq_chat.system.lines import read_error
from seq2seq_chat.text.tokenizers import (
    TOKENIZER_FILE,
    Tokenizer,
    TokenizerError,
    Tokenizers,
    TokenizerSettings,
    create_tokenizer,
)
from seq2seq_chat.text.tokenizers.tokenizer import SURROGATE, WhitespaceTokenizer
from seq2seq_chat.text.vocabulary import (
    SPECIAL_WORDS,
    TARGET_PREFIX,
    TURN,
    UNKNOWN,
    VOCABULARY_FILE,
    Vocabulary,
    VocabularyError,
    strip_ids,
)

_CHECKED_WORDS = 1000


class TextCodec(NamedTuple):
    """Encodes the texts of one side of the samples as word ids, and decodes them."""

    tokenizer: Tokenizer
    vocabulary: Vocabulary

    def encode(self, text: str) -> list[int]:
        """The ids of the tokens of a text, ``UNKNOWN`` for those that are not in the vocabulary."""
        return self.vocabulary.ids(self.tokenizer.encode(text))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids as people write it, without the end marker and padding."""
        return self.text(self.words(ids))

    def text(self, tokens: Iterable[str]) -> str:
        """The text of tokens as people write it, with U+FFFD for surrogates, which UTF-8 cannot encode."""
        return replace_surrogates(self.tokenizer.decode(tokens))

    def words(self, ids: Iterable[int]) -> list[str]:
        """The tokens of ids, without the end marker and padding."""
        return self.vocabulary.tokens(strip_ids(ids))


class Codecs(NamedTuple):
    """The codecs of source and target, the same object if they share it."""

    source: TextCodec
    target: TextCodec

    @property
    def is_shared(self) -> bool:
        """Whether source and target share the tokenizer and the vocabulary."""
        return self.source is self.target

    @property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of source and target."""
        return Tokenizers(self.source.tokenizer, self.target.tokenizer)

    @classmethod
    def shared(cls, codec: TextCodec) -> Codecs:
        """The same codec for both sides."""
        return cls(codec, codec)

    @classmethod
    def of_words(cls, vocabulary: Vocabulary) -> Codecs:
        """One vocabulary for both sides, whose words are separated by white space."""
        return cls.shared(TextCodec(WhitespaceTokenizer(), vocabulary))

    @property
    def vocabulary_sizes(self) -> tuple[int, int]:
        """The numbers of words of the target and of the source."""
        return len(self.target.vocabulary), len(self.source.vocabulary)

    @property
    def words(self) -> int:
        """The number of words of both vocabularies, or of the shared one."""
        return sum(len(codec.vocabulary) for _, codec in self._files())

    def fingerprints(self) -> dict[str, str]:
        """Hashes of the vocabularies and of the tokenizers' files; the target's only if it has its own."""
        fingerprints = {}
        for prefix, codec in self._files():
            fingerprints[f"{prefix}vocabulary"] = codec.vocabulary.fingerprint
            if codec.tokenizer.file_content is not None:
                fingerprints[f"{prefix}tokenizer"] = hashlib.sha256(codec.tokenizer.file_content).hexdigest()
        return fingerprints

    def save(self, folder: Path) -> None:
        """Write vocabulary.txt and, if the tokenizer has a file, tokenizer.json; the same for the target's own ones.

        Raises:
            UserError: A file could not be written.
        """
        for prefix, codec in self._files():
            codec.vocabulary.save(folder / f"{prefix}{VOCABULARY_FILE}")
            if codec.tokenizer.file_content is not None:
                write_atomically(folder / f"{prefix}{TOKENIZER_FILE}", codec.tokenizer.file_content)

    @classmethod
    def load(cls, folder: Path, settings: Data) -> Codecs:
        """Read the files that :meth:`save` has written.

        Raises:
            VocabularyError, TokenizerError: A file is missing or damaged.
        """
        source = _load(folder, "", settings.source_text)
        return cls(
            source, source if settings.has_shared_vocabulary else _load(folder, TARGET_PREFIX, settings.target_text)
        )

    def to_json(self) -> list[dict[str, Any]]:
        """The contents for :meth:`from_json`: one object, or two if the target has its own."""
        return [
            {
                "words": codec.vocabulary.words,
                "file": codec.tokenizer.file_content and codec.tokenizer.file_content.decode(),
            }
            for _, codec in self._files()
        ]

    @classmethod
    def from_json(cls, contents: list[dict[str, Any]], settings: Data, origin: str) -> Codecs:
        """The codecs that another process has described; ``origin`` names it in error messages."""
        codecs = []
        for content, text in zip(contents, (settings.source_text, settings.target_text), strict=False):
            file = None if content["file"] is None else content["file"].encode()
            tokenizer = create_tokenizer(tokenizer_settings(text), file, origin)
            codecs.append(TextCodec(tokenizer, Vocabulary(content["words"], source=f"the vocabulary of {origin}")))
        return cls(codecs[0], codecs[-1])

    def _files(self) -> list[tuple[str, TextCodec]]:
        """The codecs that are stored, with the prefixes of their files."""
        return [("", self.source)] if self.is_shared else [("", self.source), (TARGET_PREFIX, self.target)]


def tokenizer_settings(text: TextSettings) -> TokenizerSettings:
    """The settings of the tokenizer."""
    return TokenizerSettings(text.tokenizer, text.lowercase, text.subword_model, text.normalize_apostrophes)


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD for surrogates, which UTF-8 cannot encode."""
    return SURROGATE.sub("\ufffd", text)


def are_equal(tokenizer: Tokenizer, other: Tokenizer) -> bool:
    """Whether two tokenizers return the same tokens for every text."""
    one, two = (
        (each.name, each.lowercase, each.normalize_apostrophes, each.file_content) for each in (tokenizer, other)
    )
    return one == two


def convert_tokens(tokens: Iterable[str], tokenizer: Tokenizer, other: Tokenizer) -> list[str]:
    """The tokens that another tokenizer returns for the text of ``tokens``; unknown words remain unknown."""
    if are_equal(tokenizer, other):
        return list(tokens)
    converted: list[str] = []
    for is_unknown, group in groupby(tokens, SPECIAL_WORDS[UNKNOWN].__eq__):
        group_tokens = list(group)
        converted += group_tokens if is_unknown else other.encode(tokenizer.decode(group_tokens))
    return converted


def load_tokenizer(settings: TokenizerSettings, path: str | Path) -> Tokenizer:
    """Read the file of a tokenizer. Raises TokenizerError."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise read_error(Path(path), error, TokenizerError) from error
    return create_tokenizer(settings, content, str(path))


def ensure_fit(codec: TextCodec, vocabulary_name: str) -> None:
    """Check that the tokenizer can return the words of the vocabulary.

    Raises:
        VocabularyError: It cannot return some of the words although it knows all of its tokens, or most of them.
    """
    tokenizer = codec.tokenizer
    words = [word for word in codec.vocabulary.words[len(SPECIAL_WORDS) :] if word != TURN]
    if tokenizer.tokens is not None:
        known = set(tokenizer.tokens)
        foreign = [word for word in words if word not in known]
    else:
        checked = words[:_CHECKED_WORDS]
        foreign = [word for word in checked if tokenizer.encode(tokenizer.decode([word])) != [word]]
        if 2 * len(foreign) <= len(checked):
            return
    if foreign:
        raise VocabularyError(
            f"{vocabulary_name} does not match the {tokenizer.name} tokenizer, whose tokens do not include "
            f"{', '.join(cut(repr(word)) for word in foreign[:3])}. Use the vocabulary and tokenizer of the same "
            "prepared corpus."
        )


def _load(folder: Path, prefix: str, text: TextSettings) -> TextCodec:
    vocabulary, tokenizer = folder / f"{prefix}{VOCABULARY_FILE}", folder / f"{prefix}{TOKENIZER_FILE}"
    has_file = text.tokenizer == "subword"
    for path in [vocabulary, *([tokenizer] if has_file else [])]:
        if not path.is_file():
            raise VocabularyError(missing_file(folder, path.name))
    settings = tokenizer_settings(text)
    codec = TextCodec(
        load_tokenizer(settings, tokenizer) if has_file else create_tokenizer(settings), Vocabulary.load(vocabulary)
    )
    if has_file:
        ensure_fit(codec, str(vocabulary))
    return codec


def missing_file(run: Path, name: str) -> str:
    """A sentence about a run that lacks one of its files."""
    return f"run {run.resolve().name} is damaged: {name} is missing; restore it from a backup, or copy the run again"
