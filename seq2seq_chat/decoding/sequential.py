"""Sequential search: extends one hypothesis per row word by word and never goes back. Greedy search and sampling.

Random numbers are a function of (seed, utterance): the same utterance with the same seed gets the same replies, alone
or in a batch.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from seq2seq_chat.decoding.hypotheses import (
    ModelOutput,
    PartialHypotheses,
    allowed_logits,
    reorder_state,
    repeat_rows,
    top_k_words,
)
from seq2seq_chat.decoding.parameters import Scalar, choose
from seq2seq_chat.decoding.search import ActiveHypotheses, SearchInputs, first_active, search_loop, step_active
from seq2seq_chat.search.engine import ALL_PROBABILITY, ALL_WORDS, NEG_INF, Hypotheses
from seq2seq_chat.text.vocabulary import EOS

ChooseWords = Callable[[ModelOutput, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""(step output, row of each active hypothesis: [active], t) → log-probabilities and ids of the next words: [active]."""


def most_probable_words(step_output: ModelOutput, rows: tf.Tensor, t: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
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


TruncatedSoftmax = Callable[[tf.Tensor], tf.Tensor]
"""Logits → probabilities of the next word, both [rows, vocabulary]."""


def sampling_search(inputs: SearchInputs, uniform: tf.Tensor, distribution: TruncatedSoftmax) -> Hypotheses:
    """Several sampled hypotheses for each utterance, in the order in which they were sampled.

    So the first one is a fair sample; the most probable of several would not be.

    Args:
        inputs: the model and its limits.
        uniform: random numbers in [0, 1), [batch, n, steps]; n hypotheses are sampled, at least one.
        distribution: what to sample from; see :func:`truncated_softmax`.
    """
    n = uniform.shape[1] or tf.shape(uniform)[1]
    flat = tf.reshape(uniform, [-1, uniform.shape[2]])

    def choose(step_output: ModelOutput, rows: tf.Tensor, t: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        words = sample_words(distribution(allowed_logits(step_output)), tf.gather(tf.gather(flat, rows), t, axis=1))
        return tf.gather(step_output.logits, words, batch_dims=1) - step_output.normalizer, words

    repeated = inputs._replace(state=repeat_rows(inputs.state, n), memory=repeat_rows(inputs.memory, n))
    rows = sequential_search(repeated, choose)
    shape = [inputs.batch, n]
    return Hypotheses(*(tf.reshape(part, tf.concat([shape, tf.shape(part)[2:]], axis=0)) for part in rows))


def truncated_softmax(
    temperature: Scalar, top_k: Scalar = ALL_WORDS, top_p: Scalar = ALL_PROBABILITY
) -> TruncatedSoftmax:
    """See :class:`seq2seq_chat.search.engine.WordDistribution`."""
    is_truncated = (top_k < ALL_WORDS) | (top_p < ALL_PROBABILITY)

    def truncate(logits: tf.Tensor) -> tf.Tensor:
        largest, words = tf.math.top_k(logits, tf.minimum(top_k, logits.shape[-1]))
        before = tf.cumsum(tf.nn.softmax(largest), axis=1, exclusive=True)
        probabilities = tf.nn.softmax(tf.where(before < top_p, largest, NEG_INF))
        rows = tf.tile(tf.range(tf.shape(logits)[0])[:, tf.newaxis], [1, tf.shape(largest)[1]])
        return tf.scatter_nd(tf.stack([rows, words], axis=2), probabilities, tf.shape(logits))

    def distribution(logits: tf.Tensor) -> tf.Tensor:
        scaled = logits / temperature
        return choose(is_truncated, lambda: truncate(scaled), lambda: tf.nn.softmax(scaled))

    return distribution


def sample_words(probabilities: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Sample by inverting the cumulative distribution. [rows, vocabulary], [rows] → ids, int32 [rows].

    A word of probability 0 is never sampled, even where rounding leaves the sum slightly below 1. If every word is
    forbidden, the probabilities are NaN, and the result is the last word, whose score of -inf ends the hypothesis.
    """
    cumulative = tf.cumsum(tf.cast(probabilities, tf.float64), axis=1)
    points = tf.cast(uniform, tf.float64) * cumulative[:, -1]
    words = tf.searchsorted(cumulative, points[:, tf.newaxis], side="right")[:, 0]
    return tf.minimum(words, probabilities.shape[1] - 1)
