"""What greedy, sampling and beam search share: their inputs, and the loop over the words of a reply.

A hypothesis that has ended needs no further word, and an utterance whose best hypotheses are known needs no further
search. The model computes only the active hypotheses; as replies differ in length, that is about half of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from seq2seq_chat.decoding.hypotheses import (
    ModelOutput,
    PartialHypotheses,
    StepFunction,
    reorder_state,
    repeat_rows,
)
from seq2seq_chat.decoding.logit_rules import GraphLogitRule, apply_rules
from seq2seq_chat.text.vocabulary import GO


class SearchInputs(NamedTuple):
    """A model, its state before the first word of each utterance, and the limits of a search."""

    step: StepFunction
    state: Any  # the model's state: nested tensors [batch, …]
    memory: Any  # what the model attends to: nested tensors [batch, …]
    steps: int  # maximum length of a reply, including the end marker
    source_steps: int  # width of the attention, which may be 0
    logit_rules: Sequence[GraphLogitRule] = ()  # constraints on the next word
    attended_steps: int | tf.Tensor | None = None  # width of the attention of a step, if the rest is padding

    @property
    def batch(self) -> tf.Tensor:
        """The number of utterances."""
        return tf.shape(tf.nest.flatten(self.state)[0])[0]

    def no_words(self, scores: tf.Tensor) -> PartialHypotheses:
        """Hypotheses before their first word, see :meth:`PartialHypotheses.empty`."""
        width = self.source_steps if self.attended_steps is None else self.attended_steps
        return PartialHypotheses.empty(scores, self.steps, width)


class ActiveHypotheses(NamedTuple):
    """Rows among [batch · width], the hypotheses of an utterance side by side, and the model's tensors for them."""

    rows: tf.Tensor  # int32 [active], ascending
    state: Any  # the model's state: nested tensors [active, …]
    memory: Any  # what the model attends to: nested tensors [active, …]


Extend = Callable[[tf.Tensor, PartialHypotheses, ActiveHypotheses], tuple[PartialHypotheses, ActiveHypotheses]]
"""(t, all hypotheses, the active ones) → both after one more word."""


def search_loop(
    extend: Extend, hypotheses: PartialHypotheses, active: ActiveHypotheses, steps: int
) -> PartialHypotheses:
    """Extend hypotheses word by word until none is active, but not beyond ``steps`` words."""

    def running(t: tf.Tensor, hypotheses: PartialHypotheses, active: ActiveHypotheses) -> tf.Tensor:
        return (t < steps) & (tf.size(active.rows) > 0)

    def body(t: tf.Tensor, hypotheses: PartialHypotheses, active: ActiveHypotheses) -> tuple[Any, ...]:
        return t + 1, *extend(t, hypotheses, active)

    start = (0, hypotheses, active)
    invariants = tf.nest.map_structure(lambda part: tf.TensorShape([None, *part.shape[1:]]), start[1:])
    _, hypotheses, _ = tf.while_loop(running, body, start, shape_invariants=(tf.TensorShape([]), *invariants))
    return hypotheses


def first_active(inputs: SearchInputs, width: int, groups: int = 1) -> ActiveHypotheses:
    """Before the first word: one hypothesis for each group of each utterance."""
    rows = tf.range(inputs.batch * groups) * (width // groups)
    return ActiveHypotheses(rows, repeat_rows(inputs.state, groups), repeat_rows(inputs.memory, groups))


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
    # The hypotheses of an utterance share its memory: while each utterance has as many as before, it is unchanged.
    before, after = (  # bincount's GPU kernel refuses to run deterministically
        tf.math.unsorted_segment_sum(tf.ones_like(part), part // width, tf.size(running))
        for part in (active.rows, rows)
    )
    unchanged = tf.reduce_all(before == after)
    memory_after = tf.cond(unchanged, lambda: active.memory, lambda: reorder_state(memory, rows // width))
    return ActiveHypotheses(rows, state, memory_after)


def step_active(inputs: SearchInputs, active: ActiveHypotheses, words: tf.Tensor, t: tf.Tensor) -> ModelOutput:
    """The model's output for the active hypotheses under the logit rules.

    Args:
        inputs: the model and the rules.
        active: the hypotheses.
        words: of all hypotheses, int32 [batch · width, steps].
        t: number of words so far.
    """
    words = tf.gather(words, active.rows)
    previous = tf.where(t == 0, GO, tf.gather(words, tf.maximum(t - 1, 0), axis=1))
    return apply_rules(inputs.logit_rules, inputs.step(previous, active.state, active.memory), words, t)


def scatter_rows(active: ActiveHypotheses, values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """The values of active hypotheses, and zero for the others. values: [active, …] → [rows, …]."""
    shape = tf.concat([[rows], tf.shape(values)[1:]], axis=0)
    return tf.ensure_shape(tf.scatter_nd(active.rows[:, tf.newaxis], values, shape), [None, *values.shape[1:]])
