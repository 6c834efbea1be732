"""Tokenizers and vocabularies as TensorFlow graphs of string operations.

``english`` and ``character`` treat each character independently of its neighbors, so a table of all characters, built
with the tokenizer itself, is an exact equivalent.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from seq2seq_chat.text.codec import replace_surrogates
from seq2seq_chat.text.tokenizers.english import SPACE, clean_lines
from seq2seq_chat.text.tokenizers.tokenizer import CharacterTokenizer
from seq2seq_chat.text.vocabulary import UNKNOWN

TOKENS = "tokens"
"""The name of no tokenizer: a text is its tokens, separated by spaces."""
GRAPH_TOKENIZERS = ("english", "english_character", "thesis", "whitespace", "character")
"""The tokenizers that operations of TensorFlow express exactly. There is none for NFC, which ``unicode`` needs."""

_UNUSED = ("Cn", "Co", "Cs")  # Unicode categories that become spaces: unassigned, private use, surrogates
_SPACE = "[" + "".join(rf"\x{{{code:x}}}" for code in range(sys.maxunicode + 1) if chr(code).isspace()) + "]"
_LINE_NUMBER, _LINE = tf.lookup.TextFileIndex.LINE_NUMBER, tf.lookup.TextFileIndex.WHOLE_LINE
_THESIS_WORD, _MARK = "[a-zA-Z0-9.,!?]+", "([.,!?])"


class GraphTokenizer(tf.Module):
    """A tokenizer of GRAPH_TOKENIZERS, or TOKENS, for batches of strings in a graph."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        if name == "character":
            tokens = hidden_characters()
            table = tf.lookup.KeyValueTensorInitializer(list(tokens.values()), [replace_surrogates(c) for c in tokens])
            self._characters = tf.lookup.StaticHashTable(table, "")

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """UTF-8 strings [n] → tokens, strings [n, (tokens)]. Invalid bytes are read as U+FFFD."""
        if self._name == TOKENS:
            return tf.strings.split(texts)
        if self._name in ("thesis", "whitespace"):
            words = _split(texts)
            return words if self._name == "whitespace" else _thesis_tokens(words)
        code_points = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
        if self._name == "character":
            return tf.ragged.map_flat_values(_character_tokens, code_points)
        replaced = tf.ragged.map_flat_values(lambda flat: _replace(flat, *replacement_table(), " "), code_points)
        cleaned = tf.strings.split(tf.strings.reduce_join(replaced, axis=1))
        if self._name == "english":
            return cleaned
        characters = tf.strings.unicode_split(tf.strings.reduce_join(cleaned, axis=1, separator=" "), "UTF-8")
        return tf.ragged.map_flat_values(lambda flat: tf.where(flat == " ", SPACE, flat), characters)

    def decode(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """Tokens, strings [n, (tokens)] → texts, strings [n]."""
        if self._name in (TOKENS, "whitespace"):
            return tf.strings.reduce_join(tokens, axis=1, separator=" ")
        texts = tf.strings.reduce_join(tf.ragged.map_flat_values(self._text, tokens), axis=1)
        return tf.strings.regex_replace(texts, "^ ", "") if self._name in ("english", "thesis") else texts

    def _text(self, tokens: tf.Tensor) -> tf.Tensor:
        """What each token, [n], adds to a text: strings [n]."""
        if self._name == "character":
            characters = self._characters.lookup(tokens)
            return tf.where(characters == "", tokens, characters)
        if self._name == "english_character":
            return tf.where(tokens == SPACE, " ", tokens)
        return tf.where(tf.strings.regex_full_match(tokens, _MARK), tokens, " " + tokens)


def _character_tokens(code_points: tf.Tensor) -> tf.Tensor:
    """Code points [n] → the tokens of the tokenizer ``character`` [n]."""
    tokens = hidden_characters()
    characters = tf.strings.unicode_encode(code_points[:, tf.newaxis], "UTF-8")
    return _replace(code_points, [ord(char) for char in tokens], list(tokens.values()), characters)


def _split(texts: tf.Tensor) -> tf.RaggedTensor:
    """Split UTF-8 strings [n] at all white space, as Python does: [n, (words)]."""
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    return tf.strings.split(tf.strings.regex_replace(texts, _SPACE, " "))


def _thesis_tokens(words: tf.RaggedTensor) -> tf.RaggedTensor:
    """Words, strings [n, (words)] → tokens of the valid ones [n, (tokens)]."""
    valid = tf.ragged.map_flat_values(lambda flat: tf.strings.regex_full_match(flat, _THESIS_WORD), words)
    text = tf.strings.reduce_join(tf.ragged.boolean_mask(words, valid), axis=1, separator=" ")
    return tf.strings.split(tf.strings.regex_replace(text, _MARK, r" \1 "))


def _replace(
    code_points: tf.Tensor, known: Sequence[int], replacements: Sequence[str], default: str | tf.Tensor
) -> tf.Tensor:
    """The replacement of each code point that is ``known`` (ascending), the default for others: strings [n]."""
    index = tf.minimum(tf.searchsorted(tf.constant(known, tf.int32), code_points), len(known) - 1)
    return tf.where(tf.gather(known, index) == code_points, tf.gather(tf.constant(replacements), index), default)


@functools.cache
def replacement_table() -> tuple[list[int], list[str]]:
    """The code points that ``english`` does not replace by a space, ascending, and their replacements.

    A replacement is empty for an accent, several characters for a ligature, and `` , `` for a comma.
    """
    characters = [char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(char) not in _UNUSED]
    cleaned = clean_lines([f"a{char}a" for char in characters])
    replacements = {ord(char): text[1:-1] for char, text in zip(characters, cleaned, strict=True) if text[1:-1] != " "}
    return list(replacements), list(replacements.values())


@functools.cache
def hidden_characters() -> dict[str, str]:
    """The characters, in ascending order, for which ``character`` has a token other than themselves."""
    characters = list(map(chr, range(sys.maxunicode + 1)))
    tokens = zip(characters, CharacterTokenizer().encode("".join(characters)), strict=True)
    return {character: token for character, token in tokens if token != character}


def ids_table(file: Path) -> tf.lookup.StaticHashTable:
    """The lookup table of a vocabulary file: words → ids, int64; UNKNOWN for all others."""
    return tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(str(file), tf.string, _LINE, tf.int64, _LINE_NUMBER), UNKNOWN
    )


def words_table(file: Path) -> tf.lookup.StaticHashTable:
    """The lookup table of a vocabulary file: ids, int64 → words; "" for all others."""
    return tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(str(file), tf.int64, _LINE_NUMBER, tf.string, _LINE), ""
    )
