"""Beam search over arrays; the search of ``decoding/beam.py``, which explains it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seq2seq_chat.data.vocabulary import EOS
from seq2seq_chat.decoding.result import NEG_INF, NO_WORD, Hypotheses
from seq2seq_chat.portable.search import (
    ActiveHypotheses,
    SearchInputs,
    empty_hypotheses,
    next_active,
    step_active,
)
from seq2seq_chat.portable.steps import StepOutput, take_rows, top_k, top_k_words


@dataclass(frozen=True)
class BeamSettings:
    """How a beam search ranks; see :func:`seq2seq_chat.decoding.beam.beam_search`."""

    width: int
    n_best: int
    length_penalty: float = 0.0
    groups: int = 1
    diversity: float = 0.0

    @property
    def group_size(self) -> int:
        """Hypotheses of each group."""
        return self.width // self.groups

    def rank(self, scores: np.ndarray, lengths: np.ndarray | int) -> np.ndarray:
        """What hypotheses are sorted by. lengths: words without the end marker."""
        divisor = ((np.float32(5) + np.asarray(lengths, np.float32)) / np.float32(6)) ** np.float32(self.length_penalty)
        ranks: np.ndarray = scores / divisor
        return ranks


def beam_search(inputs: SearchInputs, settings: BeamSettings) -> Hypotheses:
    """The best hypotheses of each utterance by the sum of their log-probabilities."""
    batch, groups, size = inputs.batch, settings.groups, settings.group_size
    # before the first word there is one hypothesis, not ``width`` equal ones; with groups, one in each
    scores = np.where(np.arange(settings.width) % size == 0, 0.0, NEG_INF) + np.zeros([batch, 1])
    beam = empty_hypotheses(scores, inputs.steps, inputs.source_steps)
    first = np.repeat(np.arange(batch), groups)
    active = ActiveHypotheses(
        np.arange(batch * groups) * size, take_rows(inputs.state, first), take_rows(inputs.memory, first)
    )
    for t in range(inputs.steps):
        if not len(active.rows):
            break
        beam, active = _extend(inputs, settings, t, beam, active)
        if not inputs.on_step(_best(beam, settings)):
            break
    return _best(beam, settings)


def _best(beam: Hypotheses, settings: BeamSettings) -> Hypotheses:
    """The hypotheses that the search returns."""
    if settings.groups > 1:
        beam = _merge_groups(beam)
    return Hypotheses(*(field[:, : settings.n_best] for field in beam))


def _extend(
    inputs: SearchInputs, settings: BeamSettings, t: int, beam: Hypotheses, active: ActiveHypotheses
) -> tuple[Hypotheses, ActiveHypotheses]:
    """One step: extend the active hypotheses by a word, and keep the best."""
    batch, width, rows = inputs.batch, settings.width, inputs.batch * settings.width
    output = step_active(inputs, active, beam.words.reshape(rows, inputs.steps), t)
    is_active = np.zeros(rows, bool)
    is_active[active.rows] = True
    words, scores = _candidates(settings, beam, active, output)
    lengths = (beam.lengths - beam.ended)[:, :, np.newaxis]
    lengths = lengths + is_active.reshape(batch, width, 1) * (words != EOS)
    ranks = settings.rank(scores, lengths)
    choices = _choose(settings, words, ranks, is_active.reshape(batch, width))
    parents = choices // words.shape[2] + np.arange(batch)[:, np.newaxis] * width  # rows of the flat beam

    def chosen(values: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values.reshape(batch, -1), choices, axis=1)

    beam = Hypotheses(*(field.reshape(rows, *field.shape[2:])[parents] for field in beam))
    beam = beam._replace(scores=chosen(scores), ranks=chosen(ranks))
    _append(beam, t, chosen(words), is_active[parents], _attention_of_parents(active, output, rows)[parents])
    running = ~(beam.ended | _is_finished(inputs, settings, beam)[:, np.newaxis])
    return beam, next_active(active, output.state, running.reshape(-1), parents.reshape(-1), inputs.memory, width)


def _candidates(
    settings: BeamSettings, beam: Hypotheses, active: ActiveHypotheses, output: StepOutput
) -> tuple[np.ndarray, np.ndarray]:
    """Words and scores of the best continuations of each hypothesis, [batch, width, n].

    A hypothesis that has ended has one continuation, itself.
    """
    log_probabilities, best = top_k_words(output, settings.width + 1)
    batch, width = beam.scores.shape
    words = np.zeros([batch * width, best.shape[1]], np.int32)
    words[active.rows] = best
    changes = np.full(words.shape, NEG_INF, np.float32)
    changes[:, 0] = 0.0
    changes[active.rows] = log_probabilities
    shape = [batch, width, best.shape[1]]
    return words.reshape(shape), beam.scores[:, :, np.newaxis] + changes.reshape(shape)


def _choose(settings: BeamSettings, words: np.ndarray, ranks: np.ndarray, is_active: np.ndarray) -> np.ndarray:
    """The candidates to keep, group by group, best first: [batch, width], indices into width · n."""
    batch, width, count = words.shape
    if settings.groups == 1:
        return top_k(ranks.reshape(batch, -1), width)
    words = np.where(is_active[:, :, np.newaxis], words, NO_WORD)
    chosen_words, choices = np.zeros([batch, 0], words.dtype), []
    for first in range(0, width, settings.group_size):
        group = slice(first, first + settings.group_size)
        group_words, group_ranks = words[:, group].reshape(batch, -1), ranks[:, group].reshape(batch, -1)
        same = (group_words[:, :, np.newaxis] == chosen_words[:, np.newaxis]) & (group_words != NO_WORD)[
            ..., np.newaxis
        ]
        penalties = np.float32(settings.diversity) * same.sum(axis=2, dtype=np.float32)
        chosen = top_k(group_ranks - penalties, settings.group_size)
        chosen_words = np.concatenate([chosen_words, np.take_along_axis(group_words, chosen, axis=1)], axis=1)
        choices.append(chosen + first * count)
    return np.concatenate(choices, axis=1)


def _attention_of_parents(active: ActiveHypotheses, output: StepOutput, rows: int) -> np.ndarray:
    """The attention of every hypothesis of the flat beam: [rows, source steps]."""
    attention = np.zeros([rows, output.attention.shape[1]], np.float32)
    attention[active.rows] = output.attention
    return attention


def _append(beam: Hypotheses, t: int, words: np.ndarray, extended: np.ndarray, attention: np.ndarray) -> None:
    """Append words and their attention to the hypotheses that are ``extended``, bool [batch, width], in place."""
    beam.words[extended, t] = words[extended]
    beam.lengths[extended] += 1
    beam.attention[:, :, t, : attention.shape[2]][extended] = attention[extended]
    beam.ended[...] |= (extended & (words == EOS)) | (beam.scores == NEG_INF)


def _is_finished(inputs: SearchInputs, settings: BeamSettings, beam: Hypotheses) -> np.ndarray:
    """Whether the search of each utterance is finished: bool [batch]."""
    if settings.groups > 1:
        finished: np.ndarray = beam.ended.all(axis=1)
        return finished
    # scores only decrease and divisors only increase, so this is an upper bound of the final rank
    bound = np.where(beam.ended, NEG_INF, settings.rank(beam.scores, inputs.steps)).max(axis=1)
    best_ended: np.ndarray = beam.ended[:, : settings.n_best].all(axis=1)
    return best_ended & (bound <= beam.ranks[:, settings.n_best - 1])


def _merge_groups(beam: Hypotheses) -> Hypotheses:
    """The hypotheses of all groups, best first, without duplicates."""
    equal = (beam.words[:, :, np.newaxis] == beam.words[:, np.newaxis]).all(axis=3)
    is_duplicate = np.tril(equal, -1).any(axis=2)
    scores, ranks = (np.where(is_duplicate, NEG_INF, field).astype(np.float32) for field in (beam.scores, beam.ranks))
    order = top_k(ranks, ranks.shape[1])
    rows = np.arange(len(order))[:, np.newaxis]
    return Hypotheses(*(field[rows, order] for field in beam._replace(scores=scores, ranks=ranks)))
