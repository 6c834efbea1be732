"""Sequential search: extends one hypothesis a row word by word and never goes back. Greedy search, and sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from seq2seq_chat.data.vocabulary import EOS
from seq2seq_chat.decoding.active import (
    ActiveHypotheses,
    first_active,
    next_active,
    previous_words,
    scatter_rows,
    shape_invariants,
)
from seq2seq_chat.decoding.hypotheses import (
    NEG_INF,
    Hypotheses,
    StepFunction,
    StepOutput,
    empty_hypotheses,
    top_k_words,
)
from seq2seq_chat.decoding.logit_rules import LogitRule, apply_rules

Choice = Callable[[StepOutput, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""(step output, row of each active hypothesis: [active], t) → log-probabilities and ids of the next words: [active]."""


def greedy_choice(step_output: StepOutput, rows: tf.Tensor, t: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The most probable word; makes :func:`sequential_search` a greedy search."""
    log_probabilities, words = top_k_words(step_output, 1)
    return log_probabilities[:, 0], words[:, 0]


def sequential_search(
    step: StepFunction,
    state: Any,
    memory: Any = (),
    choose: Choice = greedy_choice,
    *,
    batch: tf.Tensor,
    steps: int,
    source_steps: int,
    logit_rules: Sequence[LogitRule] = (),
) -> Hypotheses:
    """One hypothesis for each row, extended by the words that ``choose`` returns up to the end marker.

    Args:
        step: the model's step function.
        state: the model's state before the first word: nested tensors [batch, …].
        memory: what the model attends to: nested tensors [batch, …].
        choose: chooses the next words.
        batch: number of rows.
        steps: maximum length of a reply, the end marker included.
        source_steps: width of the attention.
        logit_rules: constraints on the next words.
    """

    def running(t: tf.Tensor, hypotheses: Hypotheses, active: ActiveHypotheses) -> tf.Tensor:
        return (t < steps) & (tf.size(active.rows) > 0)

    def extend(t: tf.Tensor, hypotheses: Hypotheses, active: ActiveHypotheses) -> tuple[Any, ...]:
        history = tf.gather(hypotheses.words[:, 0], active.rows)
        output = step(previous_words(history, t), active.state, active.memory)
        log_probabilities, words = choose(apply_rules(logit_rules, output, history, t), active.rows, t)
        # an inactive row keeps its padding, which is 0, and its score
        extensions = (words, log_probabilities, output.attention, tf.ones_like(active.rows))
        words, log_probabilities, attention, grows = (scatter_rows(active, part, batch) for part in extensions)
        here = tf.one_hot(t, steps, on_value=True, off_value=False)
        scores = hypotheses.scores + log_probabilities[:, tf.newaxis]
        hypotheses = Hypotheses(
            words=tf.where(here, words[:, tf.newaxis, tf.newaxis], hypotheses.words),
            lengths=hypotheses.lengths + grows[:, tf.newaxis],
            scores=scores,
            ended=hypotheses.ended | (words == EOS)[:, tf.newaxis] | (scores == NEG_INF),
            attention=tf.where(here[:, tf.newaxis], attention[:, tf.newaxis, tf.newaxis], hypotheses.attention),
            ranks=scores,
        )
        active = next_active(active, output.state, ~hypotheses.ended[:, 0], tf.range(batch), memory, 1)
        return t + 1, hypotheses, active

    hypotheses = empty_hypotheses(tf.zeros([batch, 1]), steps, source_steps)
    active = first_active(state, memory, batch, 1)
    shapes = tf.nest.map_structure(lambda part: part.shape, hypotheses)
    _, hypotheses, _ = tf.while_loop(
        running,
        extend,
        (0, hypotheses, active),
        shape_invariants=(tf.TensorShape([]), shapes, shape_invariants(active)),
    )
    return hypotheses
