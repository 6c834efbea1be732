"""The hypotheses that the model is still asked about.

A hypothesis that has ended needs no further word, and an utterance whose best hypotheses are known needs no further
search. The model computes the rest only; as replies are of different lengths, that is about half of the work.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from seq2seq_chat.corpus.vocabulary import GO
from seq2seq_chat.decoding.hypotheses import Step


class Asked(NamedTuple):
    """Rows among [batch · width], the hypotheses of an utterance side by side, and what the model knows of them."""

    rows: tf.Tensor  # int32 [asked], ascending
    state: Any  # the model's state: nested tensors [asked, …]
    memory: Any  # what the model attends to: nested tensors [asked, …]


def first_asked(state: Any, memory: Any, batch: tf.Tensor, width: int, groups: int = 1) -> Asked:
    """Before the first word: one hypothesis for each group of each utterance. state, memory: [batch, …]."""
    rows = tf.range(batch * groups) * (width // groups)

    def for_each_group(part: tf.Tensor) -> tf.Tensor:
        return part if groups == 1 else tf.repeat(part, groups, axis=0)

    return Asked(rows, *(tf.nest.map_structure(for_each_group, part) for part in (state, memory)))


def next_asked(asked: Asked, said: Step, running: tf.Tensor, parents: tf.Tensor, memory: Any, width: int) -> Asked:
    """Who is asked next, with the state of its parent.

    Args:
        asked: who was asked just now.
        said: what the model said about them.
        running: the hypotheses that need another word, bool [batch · width].
        parents: the hypothesis that each one continues, int32 [batch · width]; of a running one it was asked.
        memory: nested tensors [batch, …].
    """
    rows = tf.cast(tf.where(running)[:, 0], tf.int32)
    place = tf.scatter_nd(asked.rows[:, tf.newaxis], tf.range(tf.size(asked.rows)), tf.shape(running))
    source = tf.gather(place, tf.gather(parents, rows))
    state = follow_parents(said.state, source)
    if not tf.nest.flatten(memory):
        return Asked(rows, state, memory)
    # All hypotheses of an utterance share its memory: as long as each has as many as before, it can stay as it is.
    before, after = (tf.math.bincount(part // width, minlength=tf.size(running)) for part in (asked.rows, rows))
    kept = tf.cond(
        tf.reduce_all(before == after),
        lambda: asked.memory,
        lambda: tf.nest.map_structure(lambda part: tf.gather(part, rows // width), memory),
    )
    return Asked(rows, state, kept)


def follow_parents(state: Any, parents: tf.Tensor) -> Any:
    """The state of each hypothesis's parent. state: nested tensors [rows, …], parents: [n] → [n, …]."""
    return tf.nest.map_structure(lambda part: tf.gather(part, parents), state)


def last_words(words: tf.Tensor, t: tf.Tensor) -> tf.Tensor:
    """The word before each next one. words: int32 [rows, steps], t: how many there are → [rows]."""
    return tf.where(t == 0, GO, tf.gather(words, tf.maximum(t - 1, 0), axis=1))


def spread(asked: Asked, values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """What was found for those who were asked, zero for the others. values: [asked, …] → [rows, …]."""
    shape = tf.concat([[rows], tf.shape(values)[1:]], axis=0)
    if 0 in values.shape[1:]:
        return tf.zeros(shape, values.dtype)
    return tf.ensure_shape(tf.scatter_nd(asked.rows[:, tf.newaxis], values, shape), [None, *values.shape[1:]])


def shapes_of(asked: Asked) -> Asked:
    """Shapes that stay the same from step to step, for a loop in which the number of rows changes."""
    return tf.nest.map_structure(lambda part: tf.TensorShape([None, *part.shape[1:]]), asked)
