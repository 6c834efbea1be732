"""Bootstrap resampling of corpus scores: the resamples and the test of sacrebleu, in memory that does not grow.

Sources: Koehn 2004, "Statistical significance tests for machine translation evaluation"; Riezler & Maxwell 2005.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES, SEED = 1000, 12345  # sacrebleu's defaults
BLOCK = 400_000  # counts held together, of as many resamples as that allows
MAX_KEPT_SAMPLES = 10_000  # about a byte for each and each resample


def resampled_sums(statistics: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """The sums over ``RESAMPLES`` samples with replacement: float64 [resamples, columns], exact.

    The samples are those of ``sacrebleu --confidence`` and ``--paired-bs``, and the same for all statistics of an equal
    number of samples, so the scores of two systems are paired.

    Args:
        statistics: of each sample, [samples, columns].
    """
    samples, values = len(statistics), statistics.astype(np.float64)
    count = _kept_counts if samples <= MAX_KEPT_SAMPLES else _resample_counts
    return np.concatenate([counts @ values for counts in count(samples, RESAMPLES)])


def _resample_counts(samples: int, resamples: int) -> Iterator[npt.NDArray[np.int64]]:
    """How often each sample occurs in the resamples, block by block: [resamples of the block, samples]."""
    rng, size = np.random.default_rng(SEED), max(1, BLOCK // samples)
    for start in range(0, resamples, size):
        chosen = (rng.integers(0, samples, size=samples) for _ in range(min(size, resamples - start)))
        yield np.stack([np.bincount(resample, minlength=samples) for resample in chosen])


@functools.lru_cache(maxsize=32)
def _kept_counts(samples: int, resamples: int) -> list[npt.NDArray[np.integer[Any]]]:
    """The same, kept for the other scores and snapshots of an evaluation."""
    return [counts.astype(np.min_scalar_type(counts.max())) for counts in _resample_counts(samples, resamples)]


def confidence_interval(resampled: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % confidence interval: what lies between the lowest and the highest 2.5 % of the resampled values."""
    ordered, cut = np.sort(resampled), len(resampled) // 40
    return float(ordered[cut]), float(ordered[-1 - cut])


def p_value(system: npt.NDArray[np.float64], baseline: npt.NDArray[np.float64], difference: float) -> float:
    """How likely a difference of this size is if the two systems are equally good, two-sided, as in sacrebleu.

    Args:
        system, baseline: the resampled scores of both, paired.
        difference: between their scores on all samples.
    """
    differences = np.abs(system - baseline)
    exceeding = np.count_nonzero(differences - differences.mean() > abs(difference))
    return float((exceeding + 1) / (len(differences) + 1))
