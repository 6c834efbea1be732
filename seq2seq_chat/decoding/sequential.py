"""Sequential search: extends one hypothesis per row word by word and never goes back. Greedy search and sampling."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from seq2seq_chat.data.vocabulary import EOS
from seq2seq_chat.decoding.hypotheses import PartialHypotheses, StepOutput, top_k_words
from seq2seq_chat.decoding.result import NEG_INF, Hypotheses
from seq2seq_chat.decoding.search import (
    ActiveHypotheses,
    SearchInputs,
    first_active,
    next_active,
    scatter_rows,
    step_active,
)

ChooseWords = Callable[[StepOutput, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""(step output, row of each active hypothesis: [active], t) → log-probabilities and ids of the next words: [active]."""


def most_probable_words(step_output: StepOutput, rows: tf.Tensor, t: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The choice of greedy search."""
    log_probabilities, words = top_k_words(step_output, 1)
    return log_probabilities[:, 0], words[:, 0]


def sequential_search(inputs: SearchInputs, choose: ChooseWords = most_probable_words) -> Hypotheses:
    """One hypothesis per utterance, extended by the words that ``choose`` returns up to the end marker."""
    batch = inputs.batch

    def extend(
        t: tf.Tensor, partial: PartialHypotheses, active: ActiveHypotheses
    ) -> tuple[PartialHypotheses, ActiveHypotheses]:
        hypotheses = partial.hypotheses
        output = step_active(inputs, active, hypotheses.words[:, 0], t)
        log_probabilities, words = choose(output, active.rows, t)
        # an inactive row keeps its padding, which is 0, and its score
        extensions = (words, log_probabilities, output.attention, tf.ones_like(active.rows))
        words, log_probabilities, attention, added = (scatter_rows(active, part, batch) for part in extensions)
        at_t = tf.one_hot(t, inputs.steps, on_value=True, off_value=False)
        scores = hypotheses.scores + log_probabilities[:, tf.newaxis]
        extended = Hypotheses(
            words=tf.where(at_t, words[:, tf.newaxis, tf.newaxis], hypotheses.words),
            lengths=hypotheses.lengths + added[:, tf.newaxis],
            scores=scores,
            ended=hypotheses.ended | (words == EOS)[:, tf.newaxis] | (scores == NEG_INF),
            attention=hypotheses.attention,
            ranks=scores,
        )
        running = ~extended.ended[:, 0]
        after = PartialHypotheses(extended, partial.history_with(attention, t))
        return after, next_active(active, output.state, running, tf.range(batch), inputs.memory, 1)

    partial = inputs.run(extend, inputs.no_words(tf.zeros([batch, 1])), first_active(inputs, width=1))
    return partial.completed(partial.hypotheses, inputs.source_steps)
