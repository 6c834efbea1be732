"""Subwords of a SentencePiece model (unigram or BPE), with bytes for everything it has no subword for: lossless."""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence

from seq2seq_chat.system.errors import cut
from seq2seq_chat.text.tokenizers.subword_training import (
    BYTES,
    WORD_START,
    SubwordModel,
    count_words,
    is_plain,
    sample_texts,
    segments,
    train_model,
)
from seq2seq_chat.text.tokenizers.tokenizer import TokenCache, Tokenizer, TokenizerError

_BYTE_TOKENS = list(BYTES)


class SubwordTokenizer(Tokenizer):
    """Splits each word, as separated by single spaces, into subwords.

    A subword at the start of a word begins with ``▁``, also in the first word. ``<0x0A>`` is the token of a byte of
    the UTF-8 encoding. Surrogates have bytes as well, as in Python's error handler ``surrogatepass``.
    """

    name = "subword"
    lossless = True
    tokens: Sequence[str]
    file_content: bytes

    def __init__(self, model: bytes, tokens: Sequence[str] | None = None, source: str = "the tokenizer") -> None:
        """Use a trained SentencePiece model; ``source`` names it in error messages.

        Args:
            tokens: All tokens but ``<unk>``, most frequent first; None for the order of the SentencePiece model.

        Raises:
            TokenizerError: It is not a model, or has other tokens.
        """
        from sentencepiece import SentencePieceProcessor

        processor = SentencePieceProcessor()
        try:
            processor.load_from_serialized_proto(model)
            pieces = [processor.id_to_piece(index) for index in range(processor.vocab_size())]
        except (RuntimeError, UnicodeDecodeError) as error:
            raise TokenizerError(f"{source} has no valid SentencePiece model. Train the tokenizer again.") from error
        tokens = pieces[1:] if tokens is None else tokens
        if sorted(tokens) != sorted(pieces[1:]) or not {*BYTES, WORD_START} <= set(tokens):
            raise TokenizerError(
                f"{source} is damaged: its tokens are not those of its SentencePiece model. Train the tokenizer again."
            )
        self.tokens = tokens
        self.file_content = write_model(model, tokens)
        self._processor = processor
        self._encode_plain = functools.partial(processor.encode, out_type=str)
        self._cache = TokenCache(self._encode_word)

    @classmethod
    def train(
        cls, texts: Iterable[str], vocabulary_size: int, model: SubwordModel, size_setting: str = "the vocabulary size"
    ) -> SubwordTokenizer:
        """Train a model on texts. The same texts give the same tokenizer, bit for bit.

        Args:
            vocabulary_size: The number of tokens, special words of a vocabulary included; fewer tokens if the texts
                have fewer subwords.
            size_setting: What sets the size, for error messages.

        Raises:
            TokenizerError: The texts are empty, or the vocabulary is too small for their characters.
        """
        words = count_words(sample_texts(texts))
        content = train_model(words, vocabulary_size, model, size_setting)
        tokenizer = cls(content)
        counts: Counter[str] = Counter()
        for word, count in words.items():
            for token in tokenizer.encode(word):
                counts[token] += count
        return cls(content, sorted(tokenizer.tokens, key=lambda token: -counts[token]))

    @classmethod
    def load(cls, content: bytes, source: str) -> SubwordTokenizer:
        """The tokenizer of a file's contents; ``source`` names the file in error messages.

        Raises:
            TokenizerError: These are not the contents of such a file.
        """
        return cls(*read_model(content, source), source)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).load, (self.file_content, self.name)

    def scores(self) -> dict[str, float]:
        """The score of each subword that is not a byte; the sum of the scores of a text's subwords is to be large."""
        return {
            piece: self._processor.get_score(index)
            for index in range(1, self._processor.vocab_size())  # 0 is <unk>
            if (piece := self._processor.id_to_piece(index)) not in BYTES
        }

    def encode(self, text: str) -> list[str]:
        """The subwords."""
        return " ".join(map(self._cache.__getitem__, text.split(" "))).split(" ") if text else []

    def encode_lines(self, texts: Sequence[str]) -> list[str]:
        """The subwords of each text, separated by single spaces."""
        find = self._cache.__getitem__
        return [" ".join(map(find, text.split(" "))) if text else "" for text in texts]

    def encode_words(self, words: Sequence[str]) -> list[str]:
        """The subwords of each word, separated by single spaces. A text has the subwords of its words."""
        return list(map(self._cache.__getitem__, words))

    def _encode_word(self, word: str) -> list[str]:
        if is_plain(word):
            return self._encode_plain(f" {word}")
        pieces: list[str] = []
        start = " "
        for plain, part in segments(word):
            if plain:
                pieces += self._encode_plain(start + part)
            else:
                pieces += [WORD_START] if start else []
                pieces += [_BYTE_TOKENS[byte] for byte in part.encode("utf-8", "surrogatepass")]
            start = ""
        return pieces

    def decode(self, tokens: Iterable[str]) -> str:
        """The text of subwords. Bytes that are not UTF-8, which ``encode`` never returns, become U+FFFD."""
        pieces = list(tokens)
        if pieces and pieces[0].startswith(WORD_START):
            pieces[0] = pieces[0][1:]
        data = b"".join(
            BYTES[piece] if piece in BYTES else piece.replace(WORD_START, " ").encode("utf-8", "surrogatepass")
            for piece in pieces
        )
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return data.decode("utf-8", "replace")


_FORMAT = "seq2seq-chat tokenizer"
_VERSION = 1
_KEYS = {"format", "version", "tokenizer", "sha256", "model", "tokens"}


def write_model(model: bytes, tokens: Sequence[str]) -> bytes:
    """The contents of the file."""
    value = {
        "format": _FORMAT,
        "version": _VERSION,
        "tokenizer": "subword",
        "sha256": hashlib.sha256(model).hexdigest(),
        "model": base64.b64encode(model).decode("ascii"),
        "tokens": list(tokens),
    }
    return json.dumps(value, ensure_ascii=False, indent=0).encode() + b"\n"


def read_model(content: bytes, source: str) -> tuple[bytes, list[str]]:
    """The model and the tokens, most frequent first; ``source`` names the file in error messages.

    Raises:
        TokenizerError: These are not the contents of such a file, or they are damaged.
    """
    damaged = TokenizerError(f"{source} is damaged. Copy it again, or train the tokenizer again.")
    try:
        value = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise TokenizerError(
            f"{source} is not a tokenizer file, or is damaged: it is not valid JSON. "
            "Copy it again, or train the tokenizer again."
        ) from error
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise TokenizerError(f"{source} is not a tokenizer file. Use a tokenizer.json of prepare or of a run.")
    if value.get("version") != _VERSION:
        raise TokenizerError(
            f"{source} has format version {cut(repr(value.get('version')))}, but this seq2seq-chat reads version "
            f"{_VERSION} only. Use the version of seq2seq-chat that wrote it."
        )
    if value.get("tokenizer") != "subword":
        raise TokenizerError(
            f"{source} is a file of the tokenizer {cut(repr(value.get('tokenizer')))}, not of 'subword'. "
            "Use another file."
        )
    tokens = value.get("tokens")
    if set(value) != _KEYS or not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise damaged
    try:
        model = base64.b64decode(value["model"], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise damaged from error
    if hashlib.sha256(model).hexdigest() != value["sha256"]:
        raise damaged
    return model, tokens
