"""The choice of next words from logits, in NumPy: for engines that return logits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from seq2seq_chat.search.engine import (
    ALL_PROBABILITY,
    ALL_WORDS,
    NEG_INF,
    Reported,
    StepOutput,
    StepRequest,
    WordDistribution,
)

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
        request: What the search asks for.
    """
    rows, edits, forced = np.arange(len(logits)), request.edits, request.forced
    reported = top_k(logits, min(request.reported, logits.shape[1])) if request.reported else None
    looked_up = None  # words whose log-probabilities do not depend on what is forbidden
    if reported is not None or forced is not None:
        parts = [part for part in (reported, None if forced is None else forced[:, np.newaxis]) if part is not None]
        looked_up = np.concatenate(parts, axis=1)
        before = np.take_along_axis(logits, looked_up, axis=1) - normalizer[:, np.newaxis]
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
    elif request.k == 1:
        words = logits.argmax(axis=1)[:, np.newaxis]
    else:
        words = top_k(logits, min(request.k, logits.shape[1]))
    log_probabilities = np.take_along_axis(logits, words, axis=1) - normalizer[:, np.newaxis]
    output = StepOutput(words.astype(np.int32), log_probabilities, attention)
    if looked_up is None:
        return output
    after = np.take_along_axis(logits, looked_up, axis=1) - normalizer[:, np.newaxis]
    allowed = after > NEG_INF
    values = np.where(allowed, after, before)
    if forced is not None:
        output = output._replace(forced=values[rows, -1])
    if reported is not None:
        count = reported.shape[1]
        output = output._replace(reported=Reported(reported.astype(np.int32), values[:, :count], allowed[:, :count]))
    return output


def candidates(request: StepRequest) -> int | None:
    """How many of the most probable words a step needs, to have enough when some are forbidden; None: all logits."""
    edits = request.edits
    if request.sampling is not None or request.forced is not None or len(edits.penalized):
        return None
    forbidden = int(np.bincount(edits.forbidden[:, 0]).max()) if len(edits.forbidden) else 0
    return max(request.k + len(edits.banned) + forbidden, request.reported)


def choose_among(
    logits: np.ndarray, words: np.ndarray, normalizer: np.ndarray, attention: np.ndarray, request: StepRequest
) -> StepOutput:
    """Choose the next words like :func:`choose_words` among the most probable ones.

    Args:
        logits: Of the words, largest first, [rows, n].
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
