"""Greedy search, sampling and beam search as graphs; see :mod:`seq2seq_chat.search.methods`.

Random numbers are a function of (seed, utterance): the same utterance with the same seed gets the same replies, alone
or in a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding.logit_rules import Scalar, SearchParameters, choose, configured_rules
from seq2seq_chat.decoding.search import (
    ActiveHypotheses,
    ModelOutput,
    PartialHypotheses,
    SearchInputs,
    allowed_logits,
    first_active,
    is_duplicate,
    length_divisor,
    next_active,
    reorder_state,
    repeat_rows,
    scatter_rows,
    search_loop,
    step_active,
    top_k_words,
)
from seq2seq_chat.search.engine import ALL_PROBABILITY, ALL_WORDS, NEG_INF, NO_WORD, Candidates, Hypotheses
from seq2seq_chat.text.vocabulary import EOS


def find_hypotheses(
    inputs: SearchInputs, decoding: Decoding, parameters: SearchParameters, uniform: tf.Tensor | None = None
) -> Hypotheses:
    """Search with the settings' method.

    Args:
        decoding: What the graph is made for: the method, its beam width, groups and end.
        parameters: The other settings, and a beam width that does not exceed the width of the graph.
        uniform: Random numbers for sampling in [0, 1), [batch, n, steps]; n hypotheses are sampled, at least one.
    """
    inputs = inputs._replace(logit_rules=configured_rules(parameters))
    if decoding.method == "beam":
        return beam_search(inputs, decoding, parameters)
    return sequential_search(inputs, parameters, uniform if decoding.method == "sample" else None)


def sequential_search(inputs: SearchInputs, parameters: SearchParameters, uniform: tf.Tensor | None) -> Hypotheses:
    """Extend one hypothesis per utterance by the most probable words, or n by sampled ones, up to the end marker.

    Samples are returned in the order in which they were sampled. So the first one is a fair sample; the most probable
    of several would not be. Arguments as for :func:`find_hypotheses`; there is no sampling without ``uniform``.
    """
    batch = inputs.batch
    if uniform is not None:
        n = uniform.shape[1] or tf.shape(uniform)[1]
        flat = tf.reshape(uniform, [-1, uniform.shape[2]])
        inputs = inputs._replace(state=repeat_rows(inputs.state, n), memory=repeat_rows(inputs.memory, n))
        distribution = truncated_softmax(parameters.temperature, parameters.top_k, parameters.top_p)

    def next_words(output: ModelOutput, rows: tf.Tensor, t: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The log-probabilities and ids of the next words of active hypotheses, [active] each."""
        if uniform is None:
            log_probabilities, words = top_k_words(output, 1)
            return log_probabilities[:, 0], words[:, 0]
        words = sample_words(distribution(allowed_logits(output)), tf.gather(tf.gather(flat, rows), t, axis=1))
        return tf.gather(output.logits, words, batch_dims=1) - output.normalizer, words

    def extend(
        t: tf.Tensor, partial: PartialHypotheses, active: ActiveHypotheses
    ) -> tuple[PartialHypotheses, ActiveHypotheses]:
        hypotheses, rows, zeros = partial.hypotheses, active.rows, tf.zeros_like(active.rows)
        output = step_active(inputs, active, hypotheses.words[:, 0], t)
        log_probabilities, words = next_words(output, rows, t)
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
        active, ended = active._replace(state=output.state), (words == EOS) | (log_probabilities == NEG_INF)
        any_ended = tf.reduce_any(ended)
        return after, tf.cond(any_ended, lambda: reorder_state(active, tf.where(~ended)[:, 0]), lambda: active)

    no_words = inputs.no_words(tf.zeros([inputs.batch, 1]))
    partial = search_loop(extend, no_words, first_active(inputs, width=1), inputs.steps)
    found = partial.completed(partial.hypotheses, inputs.source_steps)
    if uniform is None:
        return found
    return Hypotheses(*(tf.reshape(part, tf.concat([[batch, n], tf.shape(part)[2:]], axis=0)) for part in found))


TruncatedSoftmax = Callable[[tf.Tensor], tf.Tensor]
"""Logits → probabilities of the next word, both [rows, vocabulary]."""


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


def beam_search(inputs: SearchInputs, decoding: Decoding, parameters: SearchParameters) -> Hypotheses:
    """The ``n_best`` hypotheses of each utterance; one that does not exist has a score of -inf.

    See :func:`seq2seq_chat.search.methods.beam_search`, and :func:`find_hypotheses` for the arguments.
    """
    search = _BeamSearch(inputs, inputs.batch, decoding, parameters)
    # before the first word there is one hypothesis, not ``width`` equal ones; with groups, one in each
    scores = tf.where(tf.range(search.max_width) % search.group_size == 0, 0.0, NEG_INF)
    partial = inputs.no_words(scores + tf.zeros([search.batch, 1]))
    active = first_active(inputs, search.max_width, decoding.beam_groups)
    partial = search_loop(search.extend, partial, active, inputs.steps)
    beam = _merge_groups(partial.hypotheses) if decoding.beam_groups > 1 else partial.hypotheses
    return partial.completed(beam.at(np.s_[:, : parameters.n_best]), inputs.source_steps)


@dataclass(frozen=True)
class _BeamSearch:
    """The body of the search loop; fields as the arguments of :func:`beam_search`."""

    inputs: SearchInputs
    batch: tf.Tensor
    decoding: Decoding
    parameters: SearchParameters

    @property
    def max_width(self) -> int:
        """The number of hypotheses that are computed for each utterance."""
        return self.decoding.beam_width

    @property
    def group_size(self) -> int:
        return self.max_width // self.decoding.beam_groups

    def extend(
        self, t: tf.Tensor, partial: PartialHypotheses, active: ActiveHypotheses
    ) -> tuple[PartialHypotheses, ActiveHypotheses]:
        """One step: extend the active hypotheses by a word, and keep the best."""
        inputs, rows, beam = self.inputs, self.batch * self.max_width, partial.hypotheses
        output = step_active(inputs, active, tf.reshape(beam.words, [rows, inputs.steps]), t)
        is_active = self._by_hypothesis(scatter_rows(active, tf.ones_like(active.rows), rows))
        candidates = self._candidates(beam, active, is_active, output)
        choices = self._choose(candidates, is_active)
        parents = choices // candidates.words.shape[2]
        parent_rows = parents + tf.range(self.batch)[:, tf.newaxis] * self.max_width
        beam = self._extend_beam(t, beam, candidates, choices, parents, is_active, parent_rows)
        running = tf.reshape(~(beam.ended | self._finished(beam)[:, tf.newaxis]), [rows])
        parent_rows = tf.reshape(parent_rows, [rows])
        after = PartialHypotheses(beam, partial.history_with(output.attention, active.rows, t))
        return after, next_active(active, output.state, running, parent_rows, inputs.memory, self.max_width)

    def _by_hypothesis(self, values: tf.Tensor) -> tf.Tensor:
        """[batch · max_width, …] → [batch, max_width, …]."""
        return tf.reshape(values, [self.batch, self.max_width, *values.shape[1:]])

    def _candidates(
        self, beam: Hypotheses, active: ActiveHypotheses, is_active: tf.Tensor, output: ModelOutput
    ) -> Candidates:
        """The best continuations of each hypothesis; a hypothesis that has ended has one, itself.

        At most ``max_width`` continuations of a hypothesis are kept. One more is needed, as with a length penalty the
        end marker, which does not count as a word, may rank lower than its probability suggests.
        """
        rows = self.batch * self.max_width
        log_probabilities, words = top_k_words(output, self.max_width + 1)
        count = words.shape[1]
        unchanged = tf.tile(tf.one_hot([0], count, on_value=0.0, off_value=NEG_INF), [rows, 1])
        changes = tf.tensor_scatter_nd_update(unchanged, active.rows[:, tf.newaxis], log_probabilities)
        words = self._by_hypothesis(scatter_rows(active, words, rows))
        scores = beam.scores[:, :, tf.newaxis] + self._by_hypothesis(changes)
        lengths = (beam.lengths - tf.cast(beam.ended, tf.int32))[:, :, tf.newaxis]
        lengths += is_active[:, :, tf.newaxis] * tf.cast(words != EOS, tf.int32)
        return Candidates(words, scores, self._rank(scores, lengths))

    def _rank(self, scores: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """What hypotheses are sorted by. lengths: words without the end marker."""
        return scores / length_divisor(lengths, self.parameters.length_penalty)

    def _choose(self, candidates: Candidates, is_active: tf.Tensor) -> tf.Tensor:
        """The candidates to keep, group by group, best first: [batch, max_width], indices into max_width · n.

        Args:
            is_active: 1 for active hypotheses, 0 for others: [batch, max_width].
        """
        batch, count, size = tf.shape(candidates.ranks)[0], candidates.ranks.shape[2], self.group_size
        if self.decoding.beam_groups == 1:
            return tf.math.top_k(tf.reshape(candidates.ranks, [batch, size * count]), size).indices
        words = tf.where(is_active[:, :, tf.newaxis] > 0, candidates.words, NO_WORD)
        chosen_words = tf.zeros([batch, 0], tf.int32)
        choices = []
        for first in range(0, self.max_width, size):
            group_words = tf.reshape(words[:, first : first + size], [batch, size * count])
            ranks = tf.reshape(candidates.ranks[:, first : first + size], [batch, size * count])
            same = group_words[:, :, tf.newaxis] == chosen_words[:, tf.newaxis]
            same &= (group_words != NO_WORD)[:, :, tf.newaxis]
            penalties = self.parameters.diversity_penalty * tf.reduce_sum(tf.cast(same, tf.float32), axis=2)
            chosen = tf.math.top_k(ranks - penalties, size).indices
            chosen_words = tf.concat([chosen_words, tf.gather(group_words, chosen, batch_dims=1)], axis=1)
            choices.append(chosen + first * count)
        return tf.concat(choices, axis=1)

    def _extend_beam(
        self,
        t: tf.Tensor,
        beam: Hypotheses,
        candidates: Candidates,
        choices: tf.Tensor,
        parents: tf.Tensor,
        is_active: tf.Tensor,
        parent_rows: tf.Tensor,
    ) -> Hypotheses:
        """The beam of the chosen candidates, each with the history of its parent."""

        def chosen(values: tf.Tensor) -> tf.Tensor:
            flat = tf.reshape(values, [self.batch, self.max_width * candidates.words.shape[2]])
            return tf.gather(flat, choices, batch_dims=1)

        word, score, rank = chosen(candidates.words), chosen(candidates.scores), chosen(candidates.ranks)
        if self.decoding.beam_groups == 1 and self.parameters.beam_width is not self.max_width:
            within = tf.range(self.max_width) < self.parameters.beam_width
            score, rank = tf.where(within, score, NEG_INF), tf.where(within, rank, NEG_INF)
        old = (beam.words, beam.lengths + is_active, beam.ended, beam.attention, is_active)
        words, lengths, ended, attention, is_active = reorder_state(old, parents)
        extended = is_active > 0
        at_t = tf.one_hot(t, self.inputs.steps, on_value=True, off_value=False) & extended[:, :, tf.newaxis]
        return Hypotheses(
            words=tf.where(at_t, word[:, :, tf.newaxis], words),
            lengths=lengths,
            scores=score,
            # a hypothesis of score -inf does not exist; it counts as ended so that the search does not wait for it
            ended=ended | (extended & (word == EOS)) | (score == NEG_INF),
            attention=tf.where(at_t, parent_rows[:, :, tf.newaxis], attention),
            ranks=rank,
        )

    def _finished(self, beam: Hypotheses) -> tf.Tensor:
        """Whether the search of each utterance is finished: bool [batch]."""
        if self.decoding.stop == "first_end":
            return tf.reduce_any(beam.ended & (beam.scores > NEG_INF), axis=1) | tf.reduce_all(beam.ended, axis=1)
        if self.decoding.beam_groups > 1:
            return tf.reduce_all(beam.ended, axis=1)
        # scores only decrease and divisors only increase, so this is an upper bound of the final rank
        bound = self._rank(beam.scores, tf.fill([self.batch, self.max_width], self.inputs.steps))
        bound = tf.where(beam.ended, NEG_INF, bound)
        n_best = self.parameters.n_best
        best_ended = tf.reduce_all(beam.ended[:, :n_best], axis=1)
        return best_ended & (tf.reduce_max(bound, axis=1) <= beam.ranks[:, n_best - 1])


def _merge_groups(beam: Hypotheses) -> Hypotheses:
    """The hypotheses of all groups, best first, without duplicates."""
    scores, ranks = (tf.where(is_duplicate(beam.words), NEG_INF, part) for part in (beam.scores, beam.ranks))
    order = tf.math.top_k(ranks, ranks.shape[1]).indices
    return reorder_state(beam._replace(scores=scores, ranks=ranks), order)
