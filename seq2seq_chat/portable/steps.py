"""One step of a model as arrays, and operations on rows of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

BLOCK = 64  # words whose maximum tells whether any of them can be among the most probable ones

Arrays: TypeAlias = list[np.ndarray]
"""The state of a model, or what it attends to: [rows, …] each."""


class StepOutput(NamedTuple):
    """The model's output for the next word of every row: log p(word) = logit - normalizer."""

    logits: np.ndarray  # [rows, vocabulary]; logit rules change it in place
    normalizer: np.ndarray  # log Σ exp of all logits: [rows]
    state: Arrays  # input of the next step
    attention: np.ndarray  # [rows, source steps]; source steps may be 0


StepFunction = Callable[[np.ndarray, Arrays, Arrays], StepOutput]
"""(words: int32 [rows], state, memory) → :class:`StepOutput`."""


def take_rows(arrays: Sequence[np.ndarray], rows: np.ndarray) -> Arrays:
    """The given rows of each array."""
    return [array[rows] for array in arrays]


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


def top_k_words(output: StepOutput, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``count`` most probable next words of every row, best first: log-probabilities and ids, [rows, n].

    n is ``count`` or, if that is smaller, the size of the vocabulary.
    """
    if count == 1:
        words = output.logits.argmax(axis=1)[:, np.newaxis]
    else:
        words = top_k(output.logits, min(count, output.logits.shape[1]))
    return np.take_along_axis(output.logits, words, axis=1) - output.normalizer[:, np.newaxis], words
