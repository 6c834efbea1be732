"""Sequential search: extends one hypothesis per row word by word and never goes back. Greedy search and sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Decoding
from seq2seq_chat.search.engine import NEG_INF, NO_WORD, Hypotheses, Sampling, Search, StepRequest, WordDistribution
from seq2seq_chat.search.logit_rules import combined_edits, logit_rules
from seq2seq_chat.text.vocabulary import EOS, GO, PAD


class SearchSize(NamedTuple):
    """The sizes of a search."""

    batch: int  # utterances
    steps: int  # maximum length of a reply, including the end marker
    source_steps: int  # width of the attention, which may be 0


OnHypotheses = Callable[[Hypotheses], bool]
"""Called with the hypotheses after each step, which have no attention yet; whether to continue."""


def greedy_search(
    size: SearchSize,
    decoding: Decoding,
    prefixes: Sequence[Sequence[int]] = (),
    on_step: OnHypotheses | None = None,
    sampling: Callable[[np.ndarray, int], Sampling] | None = None,
) -> Search:
    """Extend one hypothesis per utterance by the most probable word, up to the end marker.

    Args:
        size: The sizes of the search.
        decoding: The settings of the logit rules.
        prefixes: Ids of the words that the reply to each utterance starts with, even if rules forbid them.
        on_step: Watches the search, and can end it.
        sampling: Samples words, given the rows of the active hypotheses, [active], and the number of words so far.
    """
    rules, batch, steps = logit_rules(decoding), size.batch, size.steps
    forced = forced_words(prefixes, batch, steps)
    hypotheses = empty_hypotheses(np.zeros([batch, 1]), size)
    words, lengths, scores, ended, attention, _ = (field[:, 0] for field in hypotheses)
    parents = active = np.arange(batch, dtype=np.int32)
    previous = np.full(batch, GO, np.int32)
    for t in range(steps if batch else 0):
        output = yield StepRequest(
            previous,
            parents,
            combined_edits(rules, words[active, :t]),
            sampling=sampling and sampling(active, t),
            forced=forced_at(forced, active, t),
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
        parents = np.flatnonzero(~has_ended).astype(np.int32)
        active, previous = active[parents], chosen[parents]
        if not len(active) or (on_step is not None and not on_step(hypotheses)):
            break
    return hypotheses._replace(ranks=hypotheses.scores.copy())


def sampling_search(
    size: SearchSize,
    decoding: Decoding,
    uniform: npt.NDArray[np.float64],
    prefixes: Sequence[Sequence[int]] = (),
    on_step: OnHypotheses | None = None,
) -> Search:
    """Sample several hypotheses for each utterance, in the order in which they are returned.

    So the first one is a fair sample; the most probable of several would not be. Random numbers are a function of
    (seed, utterance): the same utterance with the same seed gets the same replies, alone or in a batch.

    Args:
        size: The sizes of the search.
        decoding: The settings of distribution and logit rules.
        uniform: Random numbers in [0, 1), [batch, n, steps]; n hypotheses are sampled, at least one.
        prefixes: See :func:`greedy_search`.
        on_step: See :func:`greedy_search`.
    """
    batch, n, steps = uniform.shape
    flat, distribution = uniform.reshape(batch * n, steps), WordDistribution.of_settings(decoding)

    def by_utterance(rows: Hypotheses) -> Hypotheses:
        return Hypotheses(*(field.reshape(batch, n, *field.shape[2:]) for field in rows))

    rows = greedy_search(
        size._replace(batch=batch * n),
        decoding,
        [prefix for prefix in prefixes for _ in range(n)],
        on_step and (lambda hypotheses: on_step(by_utterance(hypotheses))),
        lambda active, t: Sampling(flat[active, t], distribution),
    )
    request = next(rows)
    request = request._replace(parents=request.parents // n)  # the first step reads the state of the utterance
    try:
        while True:
            output = yield request
            request = rows.send(output)
    except StopIteration as end:
        return by_utterance(end.value)


def empty_hypotheses(scores: np.ndarray, size: SearchSize) -> Hypotheses:
    """Return hypotheses before their first word. scores: [batch, n]; those of -inf do not exist."""
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
