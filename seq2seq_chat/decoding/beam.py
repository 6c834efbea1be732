"""Beam search: the best continuations of several hypotheses side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from seq2seq_chat.corpus.vocabulary import EOS
from seq2seq_chat.decoding.asked import first_asked, last_words, next_asked, shapes_of, spread
from seq2seq_chat.decoding.hypotheses import (
    Hypotheses,
    StepFunction,
    best_words,
    found_before,
    length_divisor,
    no_words_yet,
)
from seq2seq_chat.decoding.restrictions import NEVER, Restriction, restrict


def beam_search(
    step: StepFunction,
    state: Any,
    memory: Any = (),
    *,
    batch: tf.Tensor,
    width: int,
    n_best: int,
    steps: int,
    source_steps: int,
    restrictions: Sequence[Restriction] = (),
    length_penalty: float = 0.0,
    groups: int = 1,
    diversity: float = 0.0,
) -> Hypotheses:
    """The ``n_best`` hypotheses for each utterance by the sum of their log-probabilities.

    A hypothesis that has ended keeps its place in the beam with its score, and is never continued. All that belongs to
    a hypothesis - its words, its attention, the model's state - follows it when the beam is reordered. The search of an
    utterance is over as soon as the ``n_best`` first hypotheses have ended and no other can still overtake them.

    With a length penalty hypotheses are ordered by their score divided by :func:`length_divisor`. With groups the beam
    is divided (Vijayakumar et al. 2018): each group chooses its next words after the others, and a word loses
    ``diversity`` nats in the choice, not in the score, for each hypothesis of an earlier group that took it.

    Args:
        step: what the model says about the next word.
        state: the model's state before the first word: nested tensors [batch, …].
        memory: what the model attends to: nested tensors [batch, …].
        batch: number of utterances.
        width: hypotheses kept for each utterance.
        n_best: hypotheses returned, at most ``width``; those that do not exist have a score of -inf.
        steps: words of a reply at most, the end marker included.
        source_steps: width of the attention.
        restrictions: what must not be said.
        length_penalty: 0 orders by the scores themselves.
        groups: a divisor of ``width``.
        diversity: nats.
    """
    rows = batch * width
    size = width // groups

    def rank(scores: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        return scores if length_penalty == 0 else scores / length_divisor(lengths, length_penalty)

    def over(beam: Hypotheses) -> tf.Tensor:
        """Whose search is over: bool [batch]."""
        if groups > 1:
            return tf.reduce_all(beam.ended, axis=1)
        # a score only falls, and what it is divided by only grows, so this is the most that can become of it
        chance = tf.where(beam.ended, NEVER, rank(beam.scores, tf.fill([batch, width], steps)))
        known = tf.reduce_all(beam.ended[:, :n_best], axis=1)
        return known & (tf.reduce_max(chance, axis=1) <= beam.ranks[:, n_best - 1])

    def running(t: tf.Tensor, beam: Hypotheses, asked: Any) -> tf.Tensor:
        return (t < steps) & (tf.size(asked.rows) > 0)

    def extend(t: tf.Tensor, beam: Hypotheses, asked: Any) -> tuple[Any, ...]:
        history = tf.gather(tf.reshape(beam.words, [rows, steps]), asked.rows)
        said = step(last_words(history, t), asked.state, asked.memory)
        # No more than ``width`` continuations of a hypothesis can stay, and one more where the end marker, which makes
        # no hypothesis longer, is ranked lower than its probability; where nobody is asked there is one, nothing.
        count = width + (1 if length_penalty else 0)
        gains, words = best_words(restrict(said, restrictions, history, t), count)
        most = gains.shape[1]
        nothing = tf.tile(tf.one_hot([0], most, on_value=0.0, off_value=NEVER), [rows, 1])
        gains = tf.reshape(tf.tensor_scatter_nd_update(nothing, asked.rows[:, tf.newaxis], gains), [batch, width, most])
        words = tf.reshape(spread(asked, words, rows), [batch, width, most])
        grows = tf.reshape(spread(asked, tf.ones_like(asked.rows), rows), [batch, width])

        totals = beam.scores[:, :, tf.newaxis] + gains
        without_end = (beam.lengths - tf.cast(beam.ended, tf.int32))[:, :, tf.newaxis]
        without_end += grows[:, :, tf.newaxis] * tf.cast(words != EOS, tf.int32)
        ranks = rank(totals, without_end)
        choices = _choose(ranks, words, grows, size, groups, diversity)
        parents = choices // most

        def chosen(values: tf.Tensor) -> tf.Tensor:
            return tf.gather(tf.reshape(values, [batch, width * most]), choices, batch_dims=1)

        def follow(values: tf.Tensor) -> tf.Tensor:
            return tf.gather(values, parents, batch_dims=1)

        word, score = chosen(words), chosen(totals)
        grown = follow(grows) > 0
        attention = tf.reshape(spread(asked, said.attention, rows), [batch, width, source_steps])
        here = tf.one_hot(t, steps, on_value=True, off_value=False) & grown[:, :, tf.newaxis]
        beam = Hypotheses(
            words=tf.where(here, word[:, :, tf.newaxis], follow(beam.words)),
            lengths=follow(beam.lengths + grows),
            scores=score,
            # a hypothesis of score -inf does not exist; it counts as ended so that nobody waits for it
            ended=follow(beam.ended) | (grown & (word == EOS)) | (score == NEVER),
            attention=tf.where(here[..., tf.newaxis], follow(attention)[:, :, tf.newaxis], follow(beam.attention)),
            ranks=chosen(ranks),
        )
        go_on = tf.reshape(~(beam.ended | over(beam)[:, tf.newaxis]), [rows])
        parents = tf.reshape(parents + tf.range(batch)[:, tf.newaxis] * width, [rows])
        return t + 1, beam, next_asked(asked, said, go_on, parents, memory, width)

    # before the first word there is one hypothesis, not ``width`` equal ones; with groups, one in each
    first = tf.where(tf.range(width) % size == 0, 0.0, NEVER)
    beginning = no_words_yet(tf.tile(first[tf.newaxis], [batch, 1]), steps, source_steps)
    asked = first_asked(state, memory, batch, width, groups)
    fixed = tf.nest.map_structure(lambda part: tf.TensorShape([None, width, *part.shape[2:]]), beginning)
    shapes = (tf.TensorShape([]), fixed, shapes_of(asked))
    _, beam, _ = tf.while_loop(running, extend, (0, beginning, asked), shape_invariants=shapes)
    if groups > 1:
        beam = _in_order(beam)
    return Hypotheses(*(part[:, :n_best] for part in beam))


def _choose(
    ranks: tf.Tensor, words: tf.Tensor, grows: tf.Tensor, size: int, groups: int, diversity: float
) -> tf.Tensor:
    """The continuations that stay, group by group, best first: [batch, width], numbers among width · most.

    Args:
        ranks: of every continuation, [batch, width, most].
        words: the word it adds, int32 [batch, width, most].
        grows: whether there is a word, 1 or 0: [batch, width].
    """
    batch, most = tf.shape(ranks)[0], ranks.shape[2]
    if groups == 1:
        return tf.math.top_k(tf.reshape(ranks, [batch, size * most]), size).indices
    no_word = -1
    words = tf.where(grows[:, :, tf.newaxis] > 0, words, no_word)
    taken = tf.zeros([batch, 0], tf.int32)
    choices = []
    for first in range(0, groups * size, size):
        own_words = tf.reshape(words[:, first : first + size], [batch, size * most])
        own_ranks = tf.reshape(ranks[:, first : first + size], [batch, size * most])
        same = (own_words[:, :, tf.newaxis] == taken[:, tf.newaxis]) & (own_words != no_word)[:, :, tf.newaxis]
        penalties = diversity * tf.reduce_sum(tf.cast(same, tf.float32), axis=2)
        chosen = tf.math.top_k(own_ranks - penalties, size).indices
        taken = tf.concat([taken, tf.gather(own_words, chosen, batch_dims=1)], axis=1)
        choices.append(chosen + first * most)
    return tf.concat(choices, axis=1)


def _in_order(beam: Hypotheses) -> Hypotheses:
    """The hypotheses of all groups, best first; what several groups found is kept once."""
    scores, ranks = (tf.where(found_before(beam.words), NEVER, part) for part in (beam.scores, beam.ranks))
    order = tf.math.top_k(ranks, ranks.shape[1]).indices
    beam = beam._replace(scores=scores, ranks=ranks)
    return Hypotheses(*(tf.gather(part, order, batch_dims=1) for part in beam))
