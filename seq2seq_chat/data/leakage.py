"""Leakage: samples that occur verbatim, token by token, in the training corpus."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.data.dataset import Dataset

_BLOCK = 1 << 20  # training samples compared at once


class Leakage(NamedTuple):
    """Which samples of a corpus, and which of their targets alone, occur in the training corpus."""

    samples: npt.NDArray[np.bool_]  # [samples]
    targets: npt.NDArray[np.bool_]  # [samples]


def find_leakage(corpus: Dataset, indices: npt.NDArray[Any], training: Dataset) -> Leakage:
    """Look for samples of a corpus in a training corpus by the hashes of their tokens.

    A source of several turns is its last utterance. Memory grows with the samples that are looked for, not with the
    training corpus.

    Args:
        indices: The samples that are looked for.
        training: The training corpus, encoded with the same tokenizers.
    """
    wanted = sample_hashes(corpus, indices)
    found = Leakage(np.zeros(len(indices), bool), np.zeros(len(indices), bool))
    for start in range(0, len(training), _BLOCK):
        known = sample_hashes(training, slice(start, start + _BLOCK))
        columns = zip(found, wanted, known, strict=True)
        found = Leakage(*(found_before | np.isin(hashes, others) for found_before, hashes, others in columns))
    return found


def sample_hashes(corpus: Dataset, indices: npt.NDArray[Any] | slice) -> tuple[npt.NDArray[np.uint64], ...]:
    """Hashes of some samples and of their targets alone, [n] each."""
    sources, targets = corpus.hashes(indices)
    return sources * np.uint64(0x9E3779B97F4A7C15) + targets, targets  # an odd factor, so that the order matters
