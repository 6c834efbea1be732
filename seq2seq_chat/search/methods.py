"""Greedy search, sampling and beam search.

Greedy search and sampling extend one hypothesis per row word by word and never go back. Beam search keeps the best
hypotheses of each utterance and extends them side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Decoding
from seq2seq_chat.search.engine import (
    NEG_INF,
    NO_WORD,
    Candidates,
    Hypotheses,
    Sampling,
    Search,
    StepOutput,
    StepRequest,
    WordDistribution,
)
from seq2seq_chat.search.logit_rules import combined_edits, logit_rules, top_k
from seq2seq_chat.search.records import REPORTED_CANDIDATES, Recorder
from seq2seq_chat.text.vocabulary import EOS, GO, PAD


class SearchSize(NamedTuple):
    """The sizes of a search."""

    batch: int  # utterances
    steps: int  # maximum length of a reply, including the end marker
    source_steps: int  # width of the attention, which may be 0


class Progress(NamedTuple):
    """What a search has found after a step."""

    is_running: npt.NDArray[np.bool_]  # whether the search for each utterance goes on, [batch]
    hypotheses: Callable[[], Hypotheses]
    """Returns the hypotheses so far, [batch, n, …], which have no attention yet."""
    result: Callable[[], Hypotheses]
    """Returns what the search finds if it ends now."""
    kept: Callable[[], Hypotheses]
    """Returns all hypotheses that are kept, [batch, width, …], which have no attention yet."""


OnStep = Callable[[Progress], npt.NDArray[np.bool_]]
"""Called after each step; whether to continue the search for each utterance, [batch]."""


def sequential_search(
    size: SearchSize,
    decoding: Decoding,
    prefixes: Sequence[Sequence[int]] = (),
    on_step: OnStep | None = None,
    uniform: npt.NDArray[np.float64] | None = None,
) -> Search:
    """Extend hypotheses by the most probable word, or by sampled ones, up to the end marker.

    Samples are returned in the order of sampling. So the first one is a fair sample; the most probable of several would
    not be. Random numbers are a function of (seed, utterance): the same utterance with the same seed gets the same
    replies, alone or in a batch.

    Args:
        decoding: The settings of distribution and logit rules.
        prefixes: Ids of the words that the reply to each utterance starts with, even if rules forbid them.
        on_step: Watches the search, and can end it for some utterances.
        uniform: Random numbers in [0, 1), [batch, n, steps]: n hypotheses are sampled for each utterance, at least one.
            None for greedy search, which finds one.
    """
    rules, batch, steps = logit_rules(decoding), size.batch, size.steps
    n = 1 if uniform is None else uniform.shape[1]
    distribution = WordDistribution.of_settings(decoding)
    forced = np.repeat(forced_words(prefixes, batch, steps), n, axis=0)
    hypotheses = empty_hypotheses(np.zeros([batch, n]), size)
    flat = (field.reshape(batch * n, *field.shape[2:]) for field in hypotheses)  # of the same memory
    words, lengths, scores, ended, attention, _ = flat

    def result() -> Hypotheses:
        return hypotheses._replace(ranks=hypotheses.scores.copy())

    active = np.arange(batch * n, dtype=np.int32)
    parents, previous = active // n, np.full(len(active), GO, np.int32)
    is_running = np.ones(batch, bool)
    for t in range(steps if batch else 0):
        output = yield StepRequest(
            previous,
            parents,
            combined_edits(rules, words[active, :t]),
            sampling=None if uniform is None else Sampling(uniform.reshape(-1, steps)[active, t], distribution),
            forced=forced_at(forced, active, t) if prefixes else None,
        )
        chosen, log_probabilities = output.words[:, 0], output.log_probabilities[:, 0]
        if output.forced is not None:
            is_forced = forced[active, t] != NO_WORD
            chosen = np.where(is_forced, forced[active, t], chosen)
            log_probabilities = np.where(is_forced, output.forced, log_probabilities)
        words[active, t] = chosen
        lengths[active] += 1
        scores[active] += log_probabilities
        attention[active, t, : output.attention.shape[1]] = output.attention
        has_ended = (chosen == EOS) | (scores[active] == NEG_INF)
        ended[active] = has_ended
        is_running &= (~hypotheses.ended).any(axis=1)
        if on_step is not None:
            is_running &= on_step(Progress(is_running, lambda: hypotheses, result, lambda: hypotheses))
        parents = np.flatnonzero(~has_ended & is_running[active // n]).astype(np.int32)
        active, previous = active[parents], chosen[parents]
        if not len(active):
            break
    return result()


def certain_words(kept: Hypotheses) -> npt.NDArray[np.int32]:
    """Return the words with which the reply to an utterance will start in any case, without the end marker: [n].

    They are what all hypotheses share, as each result continues one of them.

    Args:
        kept: The hypotheses that are kept for the utterance, [width, …].
    """
    words = kept.words[kept.scores > NEG_INF]
    is_shared = ((words == words[0]) & (words != PAD) & (words != EOS)).all(axis=0)
    return words[0, : np.argmin([*is_shared, False])]


def empty_hypotheses(scores: np.ndarray, size: SearchSize) -> Hypotheses:
    """Return hypotheses before their first word. scores: [batch, n]; -inf where there is no hypothesis."""
    return Hypotheses(
        words=np.full([*scores.shape, size.steps], PAD, np.int32),
        lengths=np.zeros(scores.shape, np.int32),
        scores=scores.astype(np.float32),
        ended=scores == NEG_INF,
        attention=np.zeros([*scores.shape, size.steps, size.source_steps], np.float32),
        ranks=scores.astype(np.float32),
    )


def forced_words(prefixes: Sequence[Sequence[int]], batch: int, steps: int) -> npt.NDArray[np.int32]:
    """Return the words that prefixes force at each step, [batch, steps]; ``NO_WORD`` where the search is free."""
    forced = np.full([batch, steps], NO_WORD, np.int32)
    for row, prefix in enumerate(prefixes):
        forced[row, : len(prefix)] = prefix[:steps]
    return forced


def forced_at(forced: npt.NDArray[np.int32], utterances: np.ndarray, t: int) -> npt.NDArray[np.int32] | None:
    """Return the words whose log-probabilities a step needs: one for each row if any is forced, else None."""
    words = forced[utterances, t]
    return np.where(words == NO_WORD, EOS, words) if np.any(words != NO_WORD) else None


def beam_search(
    size: SearchSize,
    decoding: Decoding,
    prefixes: Sequence[Sequence[int]] = (),
    on_step: OnStep | None = None,
    recorder: Recorder | None = None,
) -> Search:
    """Find the ``n_best`` hypotheses of each utterance by the sum of their log-probabilities.

    A hypothesis that has ended stays in the beam with its score and is never continued. The search of an utterance ends
    when its first ``n_best`` hypotheses have ended and no other can overtake them; with ``stop`` first_end (the thesis,
    section 3.3), when any hypothesis of the beam has ended, so that others may be returned unfinished.

    Hypotheses are ranked by their score divided by :func:`length_divisor`. With groups (diverse beam search,
    Vijayakumar et al. 2018) the beam is divided: each group chooses its next words after the previous ones, and the
    choice, but not the score, penalizes a word by ``diversity_penalty`` nats for each hypothesis of a previous group
    that has chosen it.

    Args:
        decoding: The settings of beam and logit rules.
        prefixes: Ids of the words that the reply to each utterance starts with; forbidden ones cost their
            log-probability, too.
        on_step: Watches the search, and can end it for some utterances.
        recorder: Records what becomes of every candidate, for a single utterance.
    """
    batch, width, rules = size.batch, decoding.beam_width, logit_rules(decoding)
    forced = forced_words(prefixes, batch, size.steps)
    # before the first word there is one hypothesis, not ``width`` equal ones; with groups, one in each
    first = np.arange(width) % (width // decoding.beam_groups) == 0
    beam = empty_hypotheses(np.tile(np.where(first, 0.0, NEG_INF), [batch, 1]), size._replace(source_steps=0))
    history = AttentionHistory(size, width)
    active = np.flatnonzero(np.tile(first, batch)).astype(np.int32)  # rows of the flat beam, [batch · width]
    parents, previous = active // width, np.full(len(active), GO, np.int32)
    is_running = np.ones(batch, bool)

    def kept() -> Hypotheses:
        return beam

    def so_far() -> Hypotheses:
        return _best(beam, decoding)[0]

    def result() -> Hypotheses:
        hypotheses, order = _best(beam, decoding)
        return hypotheses._replace(attention=history.of(order, hypotheses.lengths))

    for t in range(size.steps if batch else 0):
        words_so_far = beam.words.reshape(batch * width, -1)[active, :t]
        output = yield StepRequest(
            previous,
            parents.astype(np.int32),
            combined_edits(rules, words_so_far),
            k=width + 1,  # one more, as the end marker, which is no word of the length, may rank lower than its score
            forced=forced_at(forced, active // width, t),
            reported=REPORTED_CANDIDATES if recorder else 0,
        )
        history.add(t, active, output.attention)
        candidates, is_active = _candidates(beam, active, output, forced[:, t], decoding)
        choices = _choose(candidates, is_active, decoding)
        if recorder is not None:
            recorder.record(output, candidates, choices, active, int(forced[0, t]))
        beam, origins = _extended(t, beam, candidates, choices, is_active)
        history.reorder(origins, t, is_active)
        is_running &= ~(_is_finished(beam, decoding, size.steps) | beam.ended.all(axis=1))
        if on_step is not None:
            is_running &= on_step(Progress(is_running, so_far, result, kept))
        positions = np.zeros(batch * width, np.int32)
        positions[active] = np.arange(len(active))
        active = np.flatnonzero(~beam.ended & is_running[:, np.newaxis]).astype(np.int32)
        parents, previous = positions[origins.reshape(-1)[active]], beam.words.reshape(batch * width, -1)[active, t]
        if not len(active):
            break
    return result()


def length_divisor(words: npt.NDArray[np.int32] | int, penalty: float) -> npt.NDArray[np.float32]:
    """((5 + words) / 6)^penalty: scores are divided by it so that long hypotheses can compete. Any shape.

    Source: Wu et al. 2016, equation 14. The end marker does not count as a word.
    """
    base = (np.float32(5) + np.asarray(words, np.float32)) / np.float32(6)
    divisor: npt.NDArray[np.float32] = np.asarray(base ** np.float32(penalty), np.float32)
    return divisor


class AttentionHistory:
    """The attention of every hypothesis at every step.

    When a beam is reordered, only row numbers move with the hypotheses; the much larger attention stays where it is.
    """

    def __init__(self, size: SearchSize, width: int) -> None:
        rows = size.batch * width
        self._attention = np.zeros([size.steps, rows, size.source_steps], np.float32)
        own = np.arange(rows, dtype=np.int32).reshape(size.batch, width, 1)
        self._rows = np.repeat(own, size.steps, axis=2)  # of each word of the hypotheses

    def add(self, t: int, active: np.ndarray, attention: np.ndarray) -> None:
        """Keep the attention of a step. attention: [active, source steps]."""
        self._attention[t, active, : attention.shape[1]] = attention

    def reorder(self, origins: np.ndarray, t: int, is_active: np.ndarray) -> None:
        """Follow a beam whose hypotheses continue the rows ``origins``, [batch, width], by a word if active."""
        batch, width = origins.shape
        rows = self._rows.reshape(batch * width, -1)[origins]
        extended = is_active.reshape(-1)[origins]
        rows[extended, t] = origins[extended]
        self._rows = rows

    def of(self, order: np.ndarray, lengths: np.ndarray) -> npt.NDArray[np.float32]:
        """Return the attention of hypotheses, [batch, n] in the beam: [batch, n, steps, source steps]."""
        steps = np.arange(self._rows.shape[2])
        attention = self._attention[steps, np.take_along_axis(self._rows, order[:, :, np.newaxis], axis=1)]
        attention[steps >= lengths[:, :, np.newaxis]] = 0
        return attention


def _candidates(
    beam: Hypotheses, active: np.ndarray, output: StepOutput, forced: np.ndarray, decoding: Decoding
) -> tuple[Candidates, npt.NDArray[np.bool_]]:
    """Return the candidates, and which hypotheses are active, [batch, width]. forced: a word or none, [batch]."""
    batch, width = beam.scores.shape
    words, changes = output.words, output.log_probabilities
    if output.forced is not None:  # it is the only candidate of its utterance
        of_row = forced[active // width]
        is_forced = of_row != NO_WORD
        words, changes = words.copy(), np.where(is_forced[:, np.newaxis], np.float32(NEG_INF), changes)
        words[is_forced, 0], changes[is_forced, 0] = of_row[is_forced], output.forced[is_forced]
    count = words.shape[1]
    all_words = np.zeros([batch * width, count], np.int32)
    all_words[active] = words
    all_changes = np.full(all_words.shape, NEG_INF, np.float32)
    all_changes[:, 0] = 0.0
    all_changes[active] = changes
    is_active = np.zeros(batch * width, bool)
    is_active[active] = True
    is_active, shape = is_active.reshape(batch, width), (batch, width, count)
    all_words = all_words.reshape(shape)
    scores = beam.scores[:, :, np.newaxis] + all_changes.reshape(shape)
    ranks = scores
    if decoding.length_penalty:
        lengths = (beam.lengths - beam.ended)[:, :, np.newaxis] + (is_active[:, :, np.newaxis] & (all_words != EOS))
        ranks = scores / length_divisor(lengths, decoding.length_penalty)
    return Candidates(all_words, scores, ranks), is_active


def _choose(candidates: Candidates, is_active: np.ndarray, decoding: Decoding) -> np.ndarray:
    """Choose the candidates to keep, group by group, best first: [batch, width], indices into width · n."""
    batch, width, count = candidates.words.shape
    if decoding.beam_groups == 1:
        return top_k(candidates.ranks.reshape(batch, -1), width)
    words, size = np.where(is_active[:, :, np.newaxis], candidates.words, NO_WORD), width // decoding.beam_groups
    chosen_words, choices = np.zeros([batch, 0], words.dtype), []
    for first in range(0, width, size):
        group = slice(first, first + size)
        group_words, ranks = words[:, group].reshape(batch, -1), candidates.ranks[:, group].reshape(batch, -1)
        same = group_words[:, :, np.newaxis] == chosen_words[:, np.newaxis]
        same &= (group_words != NO_WORD)[:, :, np.newaxis]
        penalties = np.float32(decoding.diversity_penalty) * same.sum(axis=2, dtype=np.float32)
        chosen = top_k(ranks - penalties, size)
        chosen_words = np.concatenate([chosen_words, np.take_along_axis(group_words, chosen, axis=1)], axis=1)
        choices.append(chosen + first * count)
    return np.concatenate(choices, axis=1)


def _extended(
    t: int, beam: Hypotheses, candidates: Candidates, choices: np.ndarray, is_active: np.ndarray
) -> tuple[Hypotheses, np.ndarray]:
    """Return the beam of the chosen candidates, and the rows of the hypotheses that they continue, [batch, width]."""
    batch, width, count = candidates.words.shape

    def chosen(values: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values.reshape(batch, -1), choices, axis=1)

    origins = choices // count + np.arange(batch)[:, np.newaxis] * width
    flat = (field.reshape(batch * width, *field.shape[2:])[origins] for field in (beam.words, beam.lengths, beam.ended))
    words, lengths, ended = flat
    new_words, scores, extended = chosen(candidates.words), chosen(candidates.scores), is_active.reshape(-1)[origins]
    words[:, :, t] = np.where(extended, new_words, words[:, :, t])
    # a hypothesis of score -inf does not exist; it counts as ended so that the search does not wait for it
    ended = ended | (extended & (new_words == EOS)) | (scores == NEG_INF)
    return Hypotheses(words, lengths + extended, scores, ended, beam.attention, chosen(candidates.ranks)), origins


def _is_finished(beam: Hypotheses, decoding: Decoding, steps: int) -> npt.NDArray[np.bool_]:
    """Return whether the search of each utterance is finished: bool [batch]."""
    if decoding.stop == "first_end":
        return np.asarray((beam.ended & (beam.scores > NEG_INF)).any(axis=1) | beam.ended.all(axis=1))
    if decoding.beam_groups > 1:
        return np.asarray(beam.ended.all(axis=1))
    # scores only decrease and divisors only increase, so this is an upper bound of the final rank
    bound = np.where(beam.ended, NEG_INF, beam.scores / length_divisor(steps, decoding.length_penalty)).max(axis=1)
    best_ended = beam.ended[:, : decoding.n_best].all(axis=1)
    return np.asarray(best_ended & (bound <= beam.ranks[:, decoding.n_best - 1]))


def _best(beam: Hypotheses, decoding: Decoding) -> tuple[Hypotheses, np.ndarray]:
    """Return the hypotheses that a search returns, and their positions in the beam, [batch, n_best]."""
    order = np.repeat(np.arange(decoding.beam_width)[np.newaxis], len(beam.words), axis=0)
    if decoding.beam_groups > 1:  # the hypotheses of all groups, best first, without duplicates
        equal = (beam.words[:, :, np.newaxis] == beam.words[:, np.newaxis]).all(axis=3)
        is_duplicate = np.tril(equal, -1).any(axis=2)
        scores, ranks = (np.where(is_duplicate, np.float32(NEG_INF), part) for part in (beam.scores, beam.ranks))
        beam, order = beam._replace(scores=scores, ranks=ranks), top_k(ranks, decoding.beam_width)
    order = order[:, : decoding.n_best]
    return beam.at((np.arange(len(order))[:, np.newaxis], order)), order
