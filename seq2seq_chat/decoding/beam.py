"""Beam search: the best continuations of several hypotheses side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from seq2seq_chat.corpus.vocabulary import EOS, GO, PAD
from seq2seq_chat.decoding.hypotheses import Hypotheses, StepFunction, best_words


def beam_search(
    step: StepFunction,
    state: Any,
    *,
    batch: tf.Tensor,
    width: int,
    n_best: int,
    steps: int,
    source_steps: int,
    forbidden: Sequence[int] = (),
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
        forbidden: ids of words that must not come.
    """

    def running(t: tf.Tensor, beam: Hypotheses, last: tf.Tensor, state: Any) -> tf.Tensor:
        return (t < steps) & ~tf.reduce_all(beam.ended[:, :n_best])

    def extend(t: tf.Tensor, beam: Hypotheses, last: tf.Tensor, state: Any) -> tuple[Any, ...]:
        said = step(tf.reshape(last, [-1]), state)
        # no more than ``width`` continuations of a hypothesis can stay; what has ended has one, which is nothing
        gains, words = best_words(said, width, forbidden)
        most = gains.shape[-1]
        gains = tf.reshape(gains, [batch, width, most])
        nothing_more = tf.one_hot(0, most, on_value=0.0, off_value=-float("inf"))
        gains = tf.where(beam.ended[:, :, tf.newaxis], nothing_more, gains)

        totals = beam.scores[:, :, tf.newaxis] + gains
        scores, choices = tf.math.top_k(tf.reshape(totals, [batch, width * most]), width)
        parents = choices // most
        words = tf.gather(tf.reshape(words, [batch, width * most]), choices, batch_dims=1)

        def follow(rows: tf.Tensor) -> tf.Tensor:
            return tf.gather(rows, parents, batch_dims=1)

        ended = follow(beam.ended)
        words = tf.where(ended, PAD, words)
        attention = follow(tf.reshape(said.attention, [batch, width, source_steps]))
        here = tf.one_hot(t, steps, on_value=True, off_value=False)
        beam = Hypotheses(
            words=tf.where(here, words[:, :, tf.newaxis], follow(beam.words)),
            lengths=follow(beam.lengths) + tf.cast(~ended, tf.int32),
            scores=scores,
            # a hypothesis of score -inf does not exist; it counts as ended so that nobody waits for it
            ended=ended | (words == EOS) | (scores == -float("inf")),
            attention=tf.where(here[:, tf.newaxis], attention[:, :, tf.newaxis], follow(beam.attention)),
        )
        return t + 1, beam, words, follow_parents(said.state, parents)

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
