"""Beam search: the best continuations of several hypotheses side by side."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from seq2seq_chat.corpus.vocabulary import EOS, GO, PAD
from seq2seq_chat.decoding.hypotheses import Hypotheses, StepFunction


def beam_search(
    step: StepFunction, state: Any, *, batch: tf.Tensor, width: int, n_best: int, steps: int, source_steps: int
) -> Hypotheses:
    """The ``n_best`` hypotheses for each utterance by the sum of their log-probabilities.

    A hypothesis that has ended keeps its place in the beam with its score, and is never continued. All that belongs to
    a hypothesis - its words, its attention, the model's state - follows it when the beam is reordered. A hypothesis
    scores at most what its beginning scores, so the search is over as soon as the ``n_best`` first ones have ended.

    Args:
        step: what the model says about the next word.
        state: the model's state before the first word, [batch · width, …], the rows of an utterance side by side.
        batch: number of utterances.
        width: hypotheses kept for each utterance.
        n_best: hypotheses returned, at most ``width``; those that do not exist have a score of -inf.
        steps: words of a reply at most, the end marker included.
        source_steps: width of the attention.
    """

    def running(t: tf.Tensor, beam: Hypotheses, last: tf.Tensor, state: Any) -> tf.Tensor:
        return (t < steps) & ~tf.reduce_all(beam.ended[:, :n_best])

    def extend(t: tf.Tensor, beam: Hypotheses, last: tf.Tensor, state: Any) -> tuple[Any, ...]:
        log_probabilities, state, attention = step(tf.reshape(last, [-1]), state)
        words_known = log_probabilities.shape[-1]
        log_probabilities = tf.reshape(log_probabilities, [batch, width, words_known])
        nothing_more = tf.one_hot(PAD, words_known, on_value=0.0, off_value=-float("inf"))
        log_probabilities = tf.where(beam.ended[:, :, tf.newaxis], nothing_more, log_probabilities)

        totals = beam.scores[:, :, tf.newaxis] + log_probabilities
        scores, choices = tf.math.top_k(tf.reshape(totals, [batch, width * words_known]), width)
        parents, words = choices // words_known, choices % words_known

        def follow(rows: tf.Tensor) -> tf.Tensor:
            return tf.gather(rows, parents, batch_dims=1)

        ended = follow(beam.ended)
        attention = follow(tf.reshape(attention, [batch, width, source_steps]))
        here = tf.one_hot(t, steps, on_value=True, off_value=False)
        beam = Hypotheses(
            words=tf.where(here, words[:, :, tf.newaxis], follow(beam.words)),
            lengths=follow(beam.lengths) + tf.cast(~ended, tf.int32),
            scores=scores,
            # a hypothesis of score -inf does not exist; it counts as ended so that nobody waits for it
            ended=ended | (words == EOS) | (scores == -float("inf")),
            attention=tf.where(here[:, tf.newaxis], attention[:, :, tf.newaxis], follow(beam.attention)),
        )
        return t + 1, beam, words, follow_parents(state, parents)

    # before the first word there is one hypothesis, not ``width`` equal ones
    first = tf.where(tf.range(width) == 0, 0.0, -float("inf"))
    beginning = Hypotheses(
        words=tf.fill([batch, width, steps], PAD),
        lengths=tf.zeros([batch, width], tf.int32),
        scores=tf.tile(first[tf.newaxis], [batch, 1]),
        ended=tf.zeros([batch, width], tf.bool),
        attention=tf.zeros([batch, width, steps, source_steps]),
    )
    start = (0, beginning, tf.fill([batch, width], GO), state)
    shapes = _invariants(start, width, steps, source_steps)
    _, beam, _, _ = tf.while_loop(running, extend, start, shape_invariants=shapes)
    return Hypotheses(*(part[:, :n_best] for part in beam))


def follow_parents(state: Any, parents: tf.Tensor) -> Any:
    """The state of each hypothesis's parent. state: nested tensors [batch · width, …], parents: [batch, width]."""

    def follow(rows: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(rows)
        beams = tf.reshape(rows, tf.concat([tf.shape(parents), shape[1:]], axis=0))
        return tf.reshape(tf.gather(beams, parents, batch_dims=1), shape)

    return tf.nest.map_structure(follow, state)


def _invariants(start: tuple[Any, ...], width: int, steps: int, source_steps: int) -> tuple[Any, ...]:
    """The shapes that stay the same from step to step; the reordering hides them from TensorFlow."""
    state = start[-1]
    return (
        tf.TensorShape([]),
        Hypotheses(
            words=tf.TensorShape([None, width, steps]),
            lengths=tf.TensorShape([None, width]),
            scores=tf.TensorShape([None, width]),
            ended=tf.TensorShape([None, width]),
            attention=tf.TensorShape([None, width, steps, source_steps]),
        ),
        tf.TensorShape([None, width]),
        tf.nest.map_structure(lambda rows: tf.TensorShape([None, *rows.shape[1:]]), state),
    )
