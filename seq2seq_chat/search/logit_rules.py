"""Constraints on the next word, and the choice of words under them.

A rule gives sparse edits of the model's logits, which an engine applies before it chooses words; for engines that
return logits, the choice is here, too. A forbidden word gets a logit of -inf, but probabilities are not renormalized:
the score of a hypothesis is the probability that the model assigns to its words, whatever was forbidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Decoding
from seq2seq_chat.search.engine import (
    ALL_PROBABILITY,
    ALL_WORDS,
    NEG_INF,
    NO_ENTRIES,
    Edits,
    Entries,
    Reported,
    StepOutput,
    StepRequest,
    WordDistribution,
)
from seq2seq_chat.text.vocabulary import EOS, GO, PAD, UNKNOWN

PORTED_RULES = frozenset({"allow_unknown", "min_length", "no_repeat_ngram_size", "repetition_penalty"})
"""Settings whose rules the search as one graph (``decoding/``) and the one in JavaScript have, too."""


class LogitRule(NamedTuple):
    """A rule, and the decoding setting that it implements."""

    setting: str
    edits: Callable[[npt.NDArray[np.int32]], Edits]
    """Words so far, [rows, t] → the edits of the next step."""


def logit_rules(decoding: Decoding) -> list[LogitRule]:
    """List the rules that the settings require."""
    never = Edits(banned=forbidden_ids(decoding.allow_unknown))
    rules = [LogitRule("allow_unknown", lambda words: never)]
    if decoding.min_length > 0:
        rules.append(LogitRule("min_length", require_length(decoding.min_length)))
    if decoding.no_repeat_ngram_size > 0:
        rules.append(LogitRule("no_repeat_ngram_size", forbid_repeated_ngrams(decoding.no_repeat_ngram_size)))
    if decoding.repetition_penalty != 1:
        rules.append(LogitRule("repetition_penalty", penalize_repetition(decoding.repetition_penalty)))
    return rules


def rule_without_port(decoding: Decoding) -> str | None:
    """Name a setting whose rule only the search of this package has; None if there is none."""
    return next((rule.setting for rule in logit_rules(decoding) if rule.setting not in PORTED_RULES), None)


def combined_edits(rules: Sequence[LogitRule], words: npt.NDArray[np.int32]) -> Edits:
    """Combine the edits of all rules. words: those so far, [rows, t]."""
    edits = [rule.edits(words) for rule in rules]
    if len(edits) == 1:
        return edits[0]
    return Edits(
        tuple(word for one in edits for word in one.banned),
        np.concatenate([one.forbidden for one in edits] or [NO_ENTRIES]),
        np.concatenate([one.penalized for one in edits] or [NO_ENTRIES]),
        float(np.prod([one.penalty for one in edits])),
    )


def forbidding_setting(rules: Sequence[LogitRule], words: Sequence[int], word: int) -> str | None:
    """Name the setting whose rule forbids a next word after the given ones; None if none does."""
    for setting, edits_after in rules:
        edits = edits_after(np.array([words], np.int32))
        if word in edits.banned or [0, word] in edits.forbidden.tolist():
            return setting
    return None


def forbidden_ids(allow_unknown: bool) -> tuple[int, ...]:
    """Ids that never occur in a reply: padding, the start marker and, unless allowed, unknown words."""
    return (PAD, GO) if allow_unknown else (PAD, GO, UNKNOWN)


def require_length(min_length: int) -> Callable[[np.ndarray], Edits]:
    """Forbid the end marker before a reply has ``min_length`` words."""
    return lambda words: Edits(banned=(EOS,) if words.shape[1] < min_length else ())


def forbid_repeated_ngrams(n: int) -> Callable[[np.ndarray], Edits]:
    """Forbid words that would repeat an n-gram (Paulus et al. 2018, section 2.5). The end marker is always allowed."""

    def edits(words: np.ndarray) -> Edits:
        t = words.shape[1]
        if t < n:
            return Edits()
        ngrams = np.lib.stride_tricks.sliding_window_view(words, n, axis=1)
        last = words[:, np.newaxis, t - n + 1 :]
        rows, positions = np.nonzero((ngrams[:, :, :-1] == last).all(axis=2))
        ids = ngrams[rows, positions, -1]
        return Edits(forbidden=_entries(rows[ids != EOS], ids[ids != EOS]))

    return edits


def penalize_repetition(penalty: float) -> Callable[[np.ndarray], Edits]:
    """Make earlier words less probable.

    Source: Keskin et al. 2019, section 4.1, with the usual correction for negative logits. Unlike the other rules this
    one changes the probabilities, and with them the scores.
    """

    def edits(words: np.ndarray) -> Edits:
        rows, positions = np.nonzero((words != PAD) & (words != EOS))
        entries = _entries(rows, words[rows, positions])
        return Edits(penalized=np.unique(entries, axis=0), penalty=penalty)  # a word that occurs twice counts once

    return edits


def _entries(rows: np.ndarray, words: np.ndarray) -> Entries:
    return np.stack([rows, words], axis=1).astype(np.int32)


BLOCK = 64  # words whose maximum tells whether any of them can be among the most probable ones


def choose_words(
    logits: npt.NDArray[np.float32],
    normalizer: npt.NDArray[np.float32],
    attention: npt.NDArray[np.float32],
    request: StepRequest,
) -> StepOutput:
    """Apply the edits of a request to logits, in place, and choose the next words.

    Args:
        logits: [rows, vocabulary].
        normalizer: log Σ exp of each row: [rows].
        attention: [rows, source steps].
    """
    edits, forced, normalizer_before = request.edits, request.forced, normalizer
    before = logits.copy() if request.reported or forced is not None else logits
    if len(edits.penalized):
        entries = tuple(edits.penalized.T)
        values, penalty = logits[entries], np.float32(edits.penalty)
        logits[entries] = np.where(values > 0, values / penalty, values * penalty)
        normalizer = log_normalizer(logits)
    logits[:, list(edits.banned)] = NEG_INF
    logits[tuple(edits.forbidden.T)] = NEG_INF
    if request.sampling is not None:
        probabilities = truncated_softmax(logits, request.sampling.distribution)
        words = sample_words(probabilities, request.sampling.uniform)[:, np.newaxis]
    elif not request.k:
        words = np.arange(logits.shape[1])[np.newaxis]
    elif request.k == 1:
        words = logits.argmax(axis=1)[:, np.newaxis]
    else:
        words = top_k(logits, min(request.k, logits.shape[1]))
    log_probabilities = np.take_along_axis(logits, words, axis=1) - normalizer[:, np.newaxis]
    output = StepOutput(words.astype(np.int32), log_probabilities, attention)

    def look_up(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log-probabilities of words, with the rules unless they forbid it, and whether they allow it."""
        after = np.take_along_axis(logits, ids, axis=1) - normalizer[:, np.newaxis]
        allowed = after > NEG_INF
        without = np.take_along_axis(before, ids, axis=1) - normalizer_before[:, np.newaxis]
        return np.where(allowed, after, without), allowed

    if forced is not None:
        output = output._replace(forced=look_up(forced[:, np.newaxis])[0][:, 0])
    if request.reported:
        ids = top_k(before, min(request.reported, logits.shape[1]))
        output = output._replace(reported=Reported(ids.astype(np.int32), *look_up(ids)))
    return output


def candidates(request: StepRequest) -> int | None:
    """How many of the most probable words a step needs, to have enough when some are forbidden; None: all logits."""
    edits = request.edits
    if request.sampling is not None or request.forced is not None or len(edits.penalized) or not request.k:
        return None
    forbidden = int(np.bincount(edits.forbidden[:, 0], minlength=1).max())
    return max(request.k + len(edits.banned) + forbidden, request.reported)


def choose_among(
    logits: np.ndarray, words: np.ndarray, normalizer: np.ndarray, attention: np.ndarray, request: StepRequest
) -> StepOutput:
    """Choose the next words like :func:`choose_words` among the most probable ones.

    Args:
        logits: The logits of the words, largest first, [rows, n].
        words: The most probable words, at least as many as :func:`candidates` says, [rows, n].
        normalizer: log Σ exp of all logits, [rows].
        attention: [rows, source steps].
    """
    is_forbidden = np.isin(words, request.edits.banned)
    if len(request.edits.forbidden):
        size = int(max(words.max(), request.edits.forbidden[:, 1].max())) + 1
        keys = request.edits.forbidden[:, 0].astype(np.int64) * size + request.edits.forbidden[:, 1]
        is_forbidden |= np.isin(np.arange(len(words))[:, np.newaxis] * size + words, keys)
    allowed = np.where(is_forbidden, np.float32(NEG_INF), logits)
    order = np.argsort(-allowed, axis=1, kind="stable")[:, : request.k]
    chosen = np.take_along_axis(words, order, axis=1).astype(np.int32)
    log_probabilities = np.take_along_axis(allowed, order, axis=1) - normalizer[:, np.newaxis]
    output = StepOutput(chosen, log_probabilities, attention)
    if request.reported:
        count = min(request.reported, words.shape[1])
        values = logits[:, :count] - normalizer[:, np.newaxis]
        output = output._replace(reported=Reported(words[:, :count].astype(np.int32), values, ~is_forbidden[:, :count]))
    return output


def log_normalizer(logits: np.ndarray) -> np.ndarray:
    """log Σ exp of every row: [rows, vocabulary] → [rows]."""
    largest = logits.max(axis=1)
    sums: np.ndarray = np.exp(logits - largest[:, np.newaxis]).sum(axis=1)
    return largest + np.log(sums)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of every row: [rows, n] → [rows, n]."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def top_k(values: np.ndarray, count: int) -> np.ndarray:
    """Indices of the ``count`` largest values of every row, largest first; of equal ones, the first ones come first.

    The largest values lie in the ``count`` blocks with the largest maxima, so only these are sorted.

    Args:
        values: [rows, n].
        count: At most n.
    """
    rows, n = values.shape
    if n < 4 * count * BLOCK:
        return np.argsort(-values, axis=1, kind="stable")[:, :count]
    whole = n // BLOCK
    blocks = values[:, : whole * BLOCK].reshape(rows, whole, BLOCK)
    best = np.sort(np.argsort(-blocks.max(axis=2), axis=1, kind="stable")[:, :count], axis=1)  # in the order of ids
    ids = (best[:, :, np.newaxis] * BLOCK + np.arange(BLOCK)).reshape(rows, -1)
    rest = np.broadcast_to(np.arange(whole * BLOCK, n), [rows, n - whole * BLOCK])
    ids = np.concatenate([ids, rest], axis=1)
    order = np.argsort(-np.take_along_axis(values, ids, axis=1), axis=1, kind="stable")[:, :count]
    return np.take_along_axis(ids, order, axis=1)


def truncated_softmax(logits: np.ndarray, distribution: WordDistribution) -> np.ndarray:
    """The probabilities of a distribution, [rows, vocabulary]."""
    scaled = logits / np.float32(distribution.temperature)
    if distribution.top_k >= ALL_WORDS and distribution.top_p >= ALL_PROBABILITY:
        return softmax(scaled)
    words = top_k(scaled, min(distribution.top_k, scaled.shape[1]))
    largest = np.take_along_axis(scaled, words, axis=1)
    sums = np.cumsum(softmax(largest), axis=1)
    before = np.pad(sums[:, :-1], [(0, 0), (1, 0)])
    kept = softmax(np.where(before < distribution.top_p, largest, np.float32(NEG_INF)))
    truncated = np.zeros_like(scaled)
    np.put_along_axis(truncated, words, kept, axis=1)
    return truncated


def sample_words(probabilities: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Sample by inverting the cumulative distribution. [rows, vocabulary], [rows] → ids [rows].

    A word of probability 0 is never sampled, even where rounding leaves the sum slightly below 1. If every word is
    forbidden, the probabilities are NaN, and the result is the last word, whose score of -inf ends the hypothesis.
    """
    cumulative = np.cumsum(probabilities, axis=1, dtype=np.float64)
    points = uniform * cumulative[:, -1]
    words = [row.searchsorted(point, side="right") for row, point in zip(cumulative, points, strict=True)]
    return np.minimum(np.array(words, int), probabilities.shape[1] - 1)
