"""Bootstrap resampling of corpus scores: the resamples and the test of sacrebleu, in memory that does not grow.

Sources: Koehn 2004, "Statistical significance tests for machine translation evaluation"; Riezler & Maxwell 2005.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

RESAMPLES, SEED = 1000, 12345  # sacrebleu's defaults


def resampled_sums(statistics: npt.NDArray[np.int32]) -> Iterator[npt.NDArray[np.float64]]:
    """Yield the sums over ``RESAMPLES`` samples with replacement: float64 [columns], exact.

    The samples are those of ``sacrebleu --confidence`` and ``--paired-bs``, and the same for all statistics of an equal
    number of samples, so the scores of two systems are paired.

    Args:
        statistics: of each sample, [samples, columns].
    """
    rng, samples, values = np.random.default_rng(SEED), len(statistics), statistics.astype(np.float64)
    for _ in range(RESAMPLES):
        yield np.bincount(rng.integers(0, samples, size=samples), minlength=samples) @ values


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
