"""Sequential search: extends one hypothesis per row word by word and never goes back. Greedy search and sampling."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from seq2seq_chat.data.vocabulary import EOS
from seq2seq_chat.decoding.hypotheses import PartialHypotheses, StepOutput, reorder_state, top_k_words
from seq2seq_chat.decoding.search import ActiveHypotheses, SearchInputs, first_active, search_loop, step_active
from seq2seq_chat.search.hypotheses import NEG_INF, Hypotheses

ChooseWords = Callable[[StepOutput, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""(step output, row of each active hypothesis: [active], t) → log-probabilities and ids of the next words: [active]."""


def most_probable_words(step_output: StepOutput, rows: tf.Tensor, t: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The choice of greedy search."""
    log_probabilities, words = top_k_words(step_output, 1)
    return log_probabilities[:, 0], words[:, 0]


def sequential_search(inputs: SearchInputs, choose: ChooseWords = most_probable_words) -> Hypotheses:
    """One hypothesis per utterance, extended by the words that ``choose`` returns up to the end marker."""

    def extend(
        t: tf.Tensor, partial: PartialHypotheses, active: ActiveHypotheses
    ) -> tuple[PartialHypotheses, ActiveHypotheses]:
        hypotheses, rows, zeros = partial.hypotheses, active.rows, tf.zeros_like(active.rows)
        output = step_active(inputs, active, hypotheses.words[:, 0], t)
        log_probabilities, words = choose(output, rows, t)
        row, row_at_t = tf.stack([rows, zeros], axis=1), tf.stack([rows, zeros, zeros + t], axis=1)
        words_so_far = tf.tensor_scatter_nd_update(hypotheses.words, row_at_t, words)
        scores = tf.tensor_scatter_nd_add(hypotheses.scores, row, log_probabilities)
        extended = Hypotheses(
            words=words_so_far,
            lengths=tf.tensor_scatter_nd_add(hypotheses.lengths, row, zeros + 1),
            scores=scores,
            ended=tf.reduce_any(words_so_far == EOS, axis=2) | (scores == NEG_INF),
            attention=hypotheses.attention,
            ranks=scores,
        )
        after = PartialHypotheses(extended, partial.history_with(output.attention, rows, t))
        ended = (words == EOS) | (log_probabilities == NEG_INF)
        return after, _without(ended, active._replace(state=output.state))

    no_words = inputs.no_words(tf.zeros([inputs.batch, 1]))
    partial = search_loop(extend, no_words, first_active(inputs, width=1), inputs.steps)
    return partial.completed(partial.hypotheses, inputs.source_steps)


def _without(ended: tf.Tensor, active: ActiveHypotheses) -> ActiveHypotheses:
    """The active hypotheses that have not ended. ended: bool [active]."""

    def running() -> ActiveHypotheses:
        return reorder_state(active, tf.where(~ended)[:, 0])

    return tf.cond(tf.reduce_any(ended), running, lambda: active)
