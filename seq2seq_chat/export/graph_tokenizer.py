"""Cleaning and tokenising inside a graph, made of TensorFlow's own string operations.

:func:`seq2seq_chat.corpus.text.clean` looks at one character after the other: what each becomes does not depend on its
neighbours. So a table of characters is all of it, and it is filled by asking ``clean`` itself about every one.
"""

from __future__ import annotations

import functools

import tensorflow as tf

from seq2seq_chat.corpus.text import SPACE, Level, clean

_CODE_POINTS = 0x110000
_SURROGATES = range(0xD800, 0xE000)  # halves of pairs, which no UTF-8 has


class Tokenizer(tf.Module):
    """``seq2seq_chat.corpus.text.tokenize`` as a graph.

    Args:
        level: what a token is.
    """

    def __init__(self, level: Level) -> None:
        super().__init__()
        self._level = level

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """texts: UTF-8 strings [n] → their tokens, strings [n, (tokens)]. Bytes that are not UTF-8 separate words."""
        cleaned = tf.strings.split(_replaced(tf.strings.unicode_decode(texts, "UTF-8", errors="replace")))
        if self._level == "word":
            return cleaned
        characters = tf.strings.unicode_split(tf.strings.reduce_join(cleaned, axis=1, separator=" "), "UTF-8")
        return tf.ragged.map_flat_values(lambda flat: tf.where(flat == " ", SPACE, flat), characters)


def detokenize(tokens: tf.RaggedTensor, level: Level) -> tf.Tensor:
    """``seq2seq_chat.corpus.text.detokenize`` as a graph. tokens: strings [n, (tokens)] → texts [n]."""
    if level == "word":
        return tf.strings.reduce_join(tokens, axis=1, separator=" ")
    return tf.strings.reduce_join(
        tf.ragged.map_flat_values(lambda flat: tf.where(flat == SPACE, " ", flat), tokens), axis=1
    )


def _replaced(codes: tf.RaggedTensor) -> tf.Tensor:
    """Code points [n, (characters)] → texts [n] of clean characters, with any number of spaces between words."""
    known, pieces = replacements()
    table = tf.constant(known, tf.int32)

    def look_up(flat: tf.Tensor) -> tf.Tensor:
        place = tf.minimum(tf.searchsorted(table, flat), len(known) - 1)
        return tf.where(tf.gather(table, place) == flat, tf.gather(tf.constant(pieces), place), " ")

    return tf.strings.reduce_join(tf.ragged.map_flat_values(look_up, codes), axis=1)


@functools.cache
def replacements() -> tuple[list[int], list[str]]:
    """The code points that become something other than a space, ascending, and what they become.

    That is nothing for an accent, several characters for a ligature, and `` , `` for a comma, a word of its own.
    """
    found = {}
    for code in range(_CODE_POINTS):
        if code not in _SURROGATES:
            between = clean(f"a{chr(code)}a")[1:-1]
            if between != " ":
                found[code] = between
    return list(found), list(found.values())
