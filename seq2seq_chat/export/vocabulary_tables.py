"""Vocabulary files as lookup tables of a graph."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from seq2seq_chat.data.vocabulary import UNKNOWN

_LINE_NUMBER, _LINE = tf.lookup.TextFileIndex.LINE_NUMBER, tf.lookup.TextFileIndex.WHOLE_LINE


def ids_table(file: Path) -> tf.lookup.StaticHashTable:
    """Words → ids, int64; those of unknown words are UNKNOWN."""
    return tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(str(file), tf.string, _LINE, tf.int64, _LINE_NUMBER), UNKNOWN
    )


def words_table(file: Path) -> tf.lookup.StaticHashTable:
    """Ids, int64 → words; "" for others."""
    return tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(str(file), tf.int64, _LINE_NUMBER, tf.string, _LINE), ""
    )
