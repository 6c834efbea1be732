"""Tokenizers as TensorFlow graphs of string operations.

:func:`~seq2seq_chat.data.tokenizers.english.clean` treats each character independently of its neighbors, so a table
of all characters is an exact equivalent. It is built by cleaning each character.
"""

from __future__ import annotations

import functools
import sys
import unicodedata

import tensorflow as tf

from seq2seq_chat.data.tokenizers import Level
from seq2seq_chat.data.tokenizers.character import SPACE
from seq2seq_chat.data.tokenizers.english import clean_lines

_UNUSED = ("Cn", "Co", "Cs")  # Unicode categories that become spaces: unassigned, private use, surrogates


class GraphTokenizer(tf.Module):
    """The tokenizer ``get_tokenizer(level)`` for batches of strings in a graph."""

    def __init__(self, level: Level) -> None:
        super().__init__()
        self._level = level

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """UTF-8 strings [n] → tokens, strings [n, (tokens)]. Invalid bytes separate words."""
        cleaned = tf.strings.split(_clean(tf.strings.unicode_decode(texts, "UTF-8", errors="replace")))
        if self._level == "word":
            return cleaned
        characters = tf.strings.unicode_split(tf.strings.reduce_join(cleaned, axis=1, separator=" "), "UTF-8")
        return tf.ragged.map_flat_values(lambda flat: tf.where(flat == " ", SPACE, flat), characters)

    def decode(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """Tokens, strings [n, (tokens)] → texts, strings [n]."""
        if self._level == "word":
            return tf.strings.reduce_join(tokens, axis=1, separator=" ")
        characters = tf.ragged.map_flat_values(lambda flat: tf.where(flat == SPACE, " ", flat), tokens)
        return tf.strings.reduce_join(characters, axis=1)


def _clean(code_points: tf.RaggedTensor) -> tf.Tensor:
    """Code points [n, (characters)] → clean texts [n], except that words may be separated by several spaces."""
    known, replacements = replacement_table()
    table = tf.constant(known, tf.int32)

    def replace(flat: tf.Tensor) -> tf.Tensor:
        index = tf.minimum(tf.searchsorted(table, flat), len(known) - 1)
        return tf.where(tf.gather(table, index) == flat, tf.gather(tf.constant(replacements), index), " ")

    return tf.strings.reduce_join(tf.ragged.map_flat_values(replace, code_points), axis=1)


@functools.cache
def replacement_table() -> tuple[list[int], list[str]]:
    """The code points that are not replaced by a space, ascending, and their replacements.

    A replacement is empty for an accent, several characters for a ligature, and `` , `` for a comma.
    """
    characters = [char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(char) not in _UNUSED]
    cleaned = clean_lines([f"a{char}a" for char in characters])
    replacements = {ord(char): text[1:-1] for char, text in zip(characters, cleaned, strict=True) if text[1:-1] != " "}
    return list(replacements), list(replacements.values())
