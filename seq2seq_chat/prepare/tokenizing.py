"""Tokenize raw utterances: what corpus files hold of them, their tokens, and what is lost."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION
from seq2seq_chat.data.samples import SAMPLE_UTTERANCES
from seq2seq_chat.prepare.shards import MAX_EXAMPLES, NOTHING_KEPT, TOKENS, Shard, strings
from seq2seq_chat.system.lines import MAX_LINE_BYTES, TOO_LONG
from seq2seq_chat.text.tokenizers import Tokenizer, TokenizerSettings, create_tokenizer
from seq2seq_chat.text.tokenizers.english import clean_block, words_with_marks

_NOT_IN_LINES = re.compile("[\n\r\0\ud800-\udfff]")
_BYTE_ORDER_MARK = "\ufeff"
_SAMPLE_LINES = 100  # of a block, to find out whether the tokenizer removes its letters
_LONG = MAX_LINE_BYTES // 4  # characters; a shorter text is at most MAX_LINE_BYTES long


class TokenizedTexts(NamedTuple):
    """Utterances as corpus files hold them; empty if nothing is left of them.

    ``tokens`` are the tokens of each, separated by single spaces: the texts themselves if the tokenizer cleans; None if
    it is not trained yet.
    """

    texts: list[str]
    tokens: list[str] | None

    def kept(self) -> list[int]:
        """The indices of the utterances that are not empty."""
        return [index for index, text in enumerate(self.texts) if text]

    def columns(self, kept: Sequence[int]) -> dict[str, pa.StringArray]:
        """The columns ``text`` and ``tokens`` of a shard for some of the utterances."""
        lines = {"text": self.texts, "tokens": self.tokens}
        return {
            name: strings([column[index].encode() for index in kept])
            for name, column in lines.items()
            if column is not None
        }


@functools.lru_cache(maxsize=2)  # tokenizers remember frequent words: one per side for all tasks of a process
def _tokenizer(settings: TokenizerSettings) -> Tokenizer | None:
    return create_tokenizer(settings) if is_ready(settings) else None


def is_ready(settings: TokenizerSettings) -> bool:
    """Whether the tokenizer can be used for reading, rather than being trained on the result."""
    return settings.name != "subword"


def keeps_texts(settings: TokenizerSettings) -> bool:
    """Whether corpus files hold texts as they are, and the table of utterances also their tokens."""
    tokenizer = _tokenizer(settings)
    return tokenizer is None or not tokenizer.cleans


def shard_schema(schema: pa.Schema, settings: TokenizerSettings) -> pa.Schema:
    """The schema of the rows of shards, with their tokens if they are not the texts."""
    has_tokens = keeps_texts(settings) and is_ready(settings) and TOKENS.name not in schema.names
    return schema.append(TOKENS) if has_tokens else schema


def tokenize(
    raw: Sequence[str], settings: TokenizerSettings, shard: Shard, *, target: bool = False, pairs: bool = False
) -> TokenizedTexts:
    """Tokenize raw utterances, and count in the report of the shard what is lost.

    Utterances that are not blank, but of which nothing is left, are counted unless they are sides of ``pairs``.

    Texts that are kept as they are lose white space at both ends. Characters that would break the lines of corpus files
    are replaced. An utterance that is too long or reads like the marker between conversations is damage.
    """
    tokenizer = _tokenizer(settings)
    tokens = None
    kept: Sequence[str] = raw
    if tokenizer is not None and tokenizer.cleans:
        texts = tokens = kept = tokenizer.encode_lines(raw)
        shard.piece.removed_words += tokenizer.count_removed(raw)
        if settings.name == "english":
            _find_marks(raw, shard, target=target)
    else:
        texts, replaced = _as_lines(raw)
        shard.piece.replaced += replaced
        if tokenizer is not None:
            tokens = tokenizer.encode_lines(texts)
            shard.piece.removed_characters += tokenizer.count_removed(texts)
            texts = [text if line else "" for text, line in zip(texts, tokens, strict=True)]
            kept = raw if tokenizer.lossless else tokens
    shard.add_letters(raw, kept, target=target)
    if not pairs:
        _count_lost(raw, texts, shard)
    _drop_unwritable(texts, shard)
    return TokenizedTexts(texts, tokens)


def tokenize_block(block: bytes, settings: TokenizerSettings, shard: Shard) -> tuple[bytes, bytes | None]:
    """Tokenize the lines of a UTF-8 text without a line feed after the last, see ``tokenize``.

    Returns:
        The lines of texts and the lines of tokens; None if there are no tokens, or if they are the texts.
    """
    if settings.name == "english" and len(block) <= MAX_LINE_BYTES:
        cleaned = clean_block(block)  # without a string for each line
        lines = _first_lines(block)
        _find_marks(lines, shard)
        shard.add_letters(lines, _first_lines(cleaned))
        if cleaned.startswith(b"\n") or cleaned.endswith(b"\n") or b"\n\n" in cleaned or not cleaned:
            _count_lost(block.decode().split("\n"), cleaned.decode().split("\n"), shard)
        return cleaned, None
    texts, tokens = tokenize(block.decode().split("\n"), settings, shard)
    has_tokens = tokens is not None and tokens is not texts
    return "\n".join(texts).encode(), "\n".join(tokens or ()).encode() if has_tokens else None


def _find_marks(raw: Sequence[str], shard: Shard, *, target: bool = False) -> None:
    """Look for what the English tokenizer removes within words, in the utterances whose letters are counted."""
    if not shard.piece.letters.get("target" if target else "source"):
        for name, words in words_with_marks(raw[:SAMPLE_UTTERANCES], MAX_EXAMPLES).items():
            shard.piece.marks[name] = [*shard.piece.marks.get(name, ()), *words][:MAX_EXAMPLES]


def _count_lost(raw: Sequence[str], texts: Sequence[str], shard: Shard) -> None:
    if "" in texts:
        lost = [line for line, text in zip(raw, texts, strict=True) if not text and not line.isspace() and line]
        shard.leave_out(NOTHING_KEPT, len(lost), lost)


def _first_lines(block: bytes) -> list[str]:
    return [line.decode() for line in block.split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES]]


def _as_lines(texts: Sequence[str]) -> tuple[list[str], int]:
    """The texts without white space at their ends, as lines of UTF-8, and the number of characters replaced.

    Line breaks and NUL become spaces, and surrogates U+FFFD. A byte order mark at an end is dropped.
    """
    lines, replaced = [], 0
    for text in texts:
        line = text.strip()
        if not line.isprintable():
            line, count = _NOT_IN_LINES.subn(lambda match: " " if match[0] in "\n\r\0" else "\ufffd", line)
            replaced += count
            while line != (stripped := line.strip().strip(_BYTE_ORDER_MARK)):
                line = stripped
        lines.append(line)
    return lines, replaced


def _drop_unwritable(texts: list[str], shard: Shard) -> None:
    """Make those texts empty that a corpus file cannot hold; they are damage."""
    if END_OF_CONVERSATION not in texts and max(map(len, texts), default=0) <= _LONG:
        return
    for index, text in enumerate(texts):
        if len(text) > _LONG and len(text.encode()) > MAX_LINE_BYTES:
            shard.add_damage("", f"an utterance is {TOO_LONG}")
        elif text == END_OF_CONVERSATION:
            shard.add_damage("", "an utterance reads like the line that ends a conversation")
        else:
            continue
        texts[index] = ""
