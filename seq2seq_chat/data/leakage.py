"""Leakage: samples that occur verbatim, token by token, in the training corpus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.data.samples import Sample


class Leakage(NamedTuple):
    """Which samples of a corpus, and which of their targets alone, occur in the training corpus."""

    samples: npt.NDArray[np.bool_]  # [samples]
    targets: npt.NDArray[np.bool_]  # [samples]


class LeakageFinder:
    """Looks for samples in a training corpus that is read sample by sample.

    Memory grows with the samples that are looked for, not with the training corpus. With context turns, a source is
    its last utterance, as in ``read_samples``.
    """

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = [_key(sample) for sample in samples]
        self._found_samples = dict.fromkeys(self._samples, False)
        self._found_targets = dict.fromkeys((target for _, target in self._samples), False)

    def add(self, sample: Sample) -> None:
        """Compare with a sample of the training corpus."""
        target = " ".join(sample.target_tokens)
        if target in self._found_targets:  # rare, so most sources are never joined
            self._found_targets[target] = True
            key = " ".join(sample.source_tokens), target
            if key in self._found_samples:
                self._found_samples[key] = True

    def leakage(self) -> Leakage:
        """Which samples occur among those added so far."""
        return Leakage(
            np.array([self._found_samples[key] for key in self._samples], bool),
            np.array([self._found_targets[target] for _, target in self._samples], bool),
        )


def _key(sample: Sample) -> tuple[str, str]:
    return " ".join(sample.source_tokens), " ".join(sample.target_tokens)
