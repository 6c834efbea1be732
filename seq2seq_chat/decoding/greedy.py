"""Greedy search: the most probable next word, again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from seq2seq_chat.corpus.vocabulary import EOS, GO, PAD
from seq2seq_chat.decoding.hypotheses import Hypotheses, StepFunction, best_words


def greedy_search(
    step: StepFunction,
    state: Any,
    *,
    batch: tf.Tensor,
    steps: int,
    source_steps: int,
    forbidden: Sequence[int] = (),
) -> Hypotheses:
    """One hypothesis for each utterance.

    Args:
        step: what the model says about the next word.
        state: the model's state before the first word, [batch, …].
        batch: number of utterances.
        steps: words of a reply at most, the end marker included.
        source_steps: width of the attention.
        forbidden: ids of words that must not come.
    """

    def running(t: tf.Tensor, found: Hypotheses, last: tf.Tensor, state: Any) -> tf.Tensor:
        return (t < steps) & ~tf.reduce_all(found.ended)

    def extend(t: tf.Tensor, found: Hypotheses, last: tf.Tensor, state: Any) -> tuple[Any, ...]:
        said = step(last, state)
        ended = found.ended[:, 0]
        gains, best = best_words(said, 1, forbidden)
        word = tf.where(ended, PAD, best[:, 0])
        gain = tf.where(ended, 0.0, gains[:, 0])
        here = tf.one_hot(t, steps, on_value=True, off_value=False)
        found = Hypotheses(
            words=tf.where(here, word[:, tf.newaxis, tf.newaxis], found.words),
            lengths=found.lengths + tf.cast(~ended, tf.int32)[:, tf.newaxis],
            scores=found.scores + gain[:, tf.newaxis],
            ended=(ended | (word == EOS))[:, tf.newaxis],
            attention=tf.where(here[:, tf.newaxis], said.attention[:, tf.newaxis, tf.newaxis], found.attention),
        )
        return t + 1, found, word, said.state

    nothing = Hypotheses(
        words=tf.fill([batch, 1, steps], PAD),
        lengths=tf.zeros([batch, 1], tf.int32),
        scores=tf.zeros([batch, 1]),
        ended=tf.zeros([batch, 1], tf.bool),
        attention=tf.zeros([batch, 1, steps, source_steps]),
    )
    _, found, _, _ = tf.while_loop(running, extend, (0, nothing, tf.fill([batch], GO), state))
    return found
