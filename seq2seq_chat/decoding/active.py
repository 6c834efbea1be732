"""The active hypotheses of a search: those that need another word.

A hypothesis that has ended needs no further word, and an utterance whose best hypotheses are known needs no further
search. The model computes only the active ones; as replies differ in length, that is about half of the work.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from seq2seq_chat.data.vocabulary import GO
from seq2seq_chat.decoding.hypotheses import reorder_state, repeat_rows


class ActiveHypotheses(NamedTuple):
    """Rows among [batch · width], the hypotheses of an utterance side by side, and the model's tensors for them."""

    rows: tf.Tensor  # int32 [active], ascending
    state: Any  # the model's state: nested tensors [active, …]
    memory: Any  # what the model attends to: nested tensors [active, …]


def first_active(state: Any, memory: Any, batch: tf.Tensor, width: int, groups: int = 1) -> ActiveHypotheses:
    """Before the first word: one hypothesis for each group of each utterance. state, memory: [batch, …]."""
    rows = tf.range(batch * groups) * (width // groups)
    return ActiveHypotheses(rows, repeat_rows(state, groups), repeat_rows(memory, groups))


def next_active(
    active: ActiveHypotheses, state: Any, running: tf.Tensor, parents: tf.Tensor, memory: Any, width: int
) -> ActiveHypotheses:
    """The hypotheses of the next step, with the state of their parents.

    Args:
        active: the hypotheses of this step.
        state: their next state.
        running: the hypotheses that need another word, bool [batch · width].
        parents: the hypothesis that each one continues, int32 [batch · width]; active for a running one.
        memory: nested tensors [batch, …].
        width: hypotheses of each utterance.
    """
    rows = tf.cast(tf.where(running)[:, 0], tf.int32)
    positions = tf.scatter_nd(active.rows[:, tf.newaxis], tf.range(tf.size(active.rows)), tf.shape(running))
    state = reorder_state(state, tf.gather(positions, tf.gather(parents, rows)))
    if not tf.nest.flatten(memory):
        return ActiveHypotheses(rows, state, memory)
    # The hypotheses of an utterance share its memory: while each utterance has as many as before, it stays as it is.
    before, after = (tf.math.bincount(part // width, minlength=tf.size(running)) for part in (active.rows, rows))
    kept = tf.cond(
        tf.reduce_all(before == after),
        lambda: active.memory,
        lambda: reorder_state(memory, rows // width),
    )
    return ActiveHypotheses(rows, state, kept)


def previous_words(words: tf.Tensor, t: tf.Tensor) -> tf.Tensor:
    """The last of ``t`` words, the start marker before the first. words: int32 [rows, steps] → [rows]."""
    return tf.where(t == 0, GO, tf.gather(words, tf.maximum(t - 1, 0), axis=1))


def scatter_rows(active: ActiveHypotheses, values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """The values of active hypotheses, and zero for the others. values: [active, …] → [rows, …]."""
    shape = tf.concat([[rows], tf.shape(values)[1:]], axis=0)
    if 0 in values.shape[1:]:
        return tf.zeros(shape, values.dtype)
    return tf.ensure_shape(tf.scatter_nd(active.rows[:, tf.newaxis], values, shape), [None, *values.shape[1:]])


def shape_invariants(active: ActiveHypotheses) -> ActiveHypotheses:
    """The shapes that hold for every step of a loop, in which the number of rows changes."""
    return tf.nest.map_structure(lambda part: tf.TensorShape([None, *part.shape[1:]]), active)
