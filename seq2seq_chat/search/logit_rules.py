"""Constraints on the next word: sparse edits of the model's logits, which an engine applies before it chooses words.

A forbidden word gets a logit of -inf, but probabilities are not renormalized: the score of a hypothesis is the
probability that the model assigns to its words, whatever was forbidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Decoding
from seq2seq_chat.text.vocabulary import EOS, GO, PAD, UNKNOWN

Entries = npt.NDArray[np.int32]
"""Entries of the logits: (row, word), [n, 2]."""
NO_ENTRIES: Entries = np.zeros([0, 2], np.int32)


class Edits(NamedTuple):
    """Changes to the logits of a step."""

    banned: tuple[int, ...] = ()  # words that are forbidden in every row
    forbidden: Entries = NO_ENTRIES
    penalized: Entries = NO_ENTRIES  # positive logits are divided by the penalty, negative ones multiplied
    penalty: float = 1.0


PORTED_RULES = frozenset({"allow_unknown", "min_length", "no_repeat_ngram_size", "repetition_penalty"})
"""Settings whose rules the search as one graph (``decoding/``) and the one in JavaScript have, too."""


class LogitRule(NamedTuple):
    """A rule, and the decoding setting that it implements."""

    setting: str
    edits: Callable[[npt.NDArray[np.int32]], Edits]
    """Words so far, [rows, t] → the edits of the next step."""


def logit_rules(decoding: Decoding) -> list[LogitRule]:
    """List the rules that the settings require."""
    rules = [LogitRule("allow_unknown", ban(forbidden_ids(decoding.allow_unknown)))]
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


def ban(words: tuple[int, ...]) -> Callable[[np.ndarray], Edits]:
    """Forbid words everywhere."""
    return lambda _: Edits(banned=words)


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
