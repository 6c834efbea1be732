"""Searches that keep one hypothesis a row and never go back: greedy, and sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from seq2seq_chat.corpus.vocabulary import EOS
from seq2seq_chat.decoding.asked import first_asked, last_words, next_asked, shapes_of, spread
from seq2seq_chat.decoding.hypotheses import Hypotheses, Step, StepFunction, no_words_yet
from seq2seq_chat.decoding.restrictions import NEVER, Restriction, restrict

Choice = Callable[[Step, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""(what the model says, number of the row of each: [asked], t) → log-probabilities and ids of the words: [asked]."""


def word_by_word(
    step: StepFunction,
    state: Any,
    memory: Any,
    choose: Choice,
    *,
    batch: tf.Tensor,
    steps: int,
    source_steps: int,
    restrictions: Sequence[Restriction] = (),
) -> Hypotheses:
    """One hypothesis for each row, which grows by the word that ``choose`` takes until that is the end marker.

    Args:
        step: what the model says about the next word.
        state: the model's state before the first word: nested tensors [batch, …].
        memory: what the model attends to: nested tensors [batch, …].
        choose: takes the next word.
        batch: number of rows.
        steps: words of a reply at most, the end marker included.
        source_steps: width of the attention.
        restrictions: what must not be said.
    """

    def running(t: tf.Tensor, found: Hypotheses, asked: Any) -> tf.Tensor:
        return (t < steps) & (tf.size(asked.rows) > 0)

    def extend(t: tf.Tensor, found: Hypotheses, asked: Any) -> tuple[Any, ...]:
        history = tf.gather(found.words[:, 0], asked.rows)
        said = step(last_words(history, t), asked.state, asked.memory)
        gains, words = choose(restrict(said, restrictions, history, t), asked.rows, t)
        # a row that is not asked keeps its padding, which is 0, and its score
        found_now = (words, gains, said.attention, tf.ones_like(asked.rows))
        words, gains, attention, grows = (spread(asked, part, batch) for part in found_now)
        here = tf.one_hot(t, steps, on_value=True, off_value=False)
        scores = found.scores + gains[:, tf.newaxis]
        found = Hypotheses(
            words=tf.where(here, words[:, tf.newaxis, tf.newaxis], found.words),
            lengths=found.lengths + grows[:, tf.newaxis],
            scores=scores,
            ended=found.ended | (words == EOS)[:, tf.newaxis] | (scores == NEVER),
            attention=tf.where(here[:, tf.newaxis], attention[:, tf.newaxis, tf.newaxis], found.attention),
            ranks=scores,
        )
        return t + 1, found, next_asked(asked, said, ~found.ended[:, 0], tf.range(batch), memory, 1)

    asked = first_asked(state, memory, batch, 1)
    start = (0, no_words_yet(tf.zeros([batch, 1]), steps, source_steps), asked)
    fixed = tf.nest.map_structure(lambda part: part.shape, start[1])
    shapes = (tf.TensorShape([]), fixed, shapes_of(asked))
    _, found, _ = tf.while_loop(running, extend, start, shape_invariants=shapes)
    return found
