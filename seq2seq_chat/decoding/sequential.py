"""Greedy search: the most probable next word, again and again."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from seq2seq_chat.decoding.hypotheses import Hypotheses, Step, StepFunction, best_words
from seq2seq_chat.decoding.word_by_word import word_by_word


def greedy_search(step: StepFunction, state: Any, memory: Any = (), **limits: Any) -> Hypotheses:
    """One hypothesis for each utterance; arguments as for :func:`word_by_word`."""
    return word_by_word(step, state, memory, most_probable, **limits)


def most_probable(said: Step, rows: tf.Tensor, t: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The choice of greedy search."""
    gains, words = best_words(said, 1)
    return gains[:, 0], words[:, 0]
