"""The random numbers of sampling."""

from __future__ import annotations

import numpy as np


def uniform_numbers(seed: int, source: np.ndarray, n: int, steps: int) -> np.ndarray:
    """Random numbers in [0, 1) for each utterance.

    source: ids int32 [batch, source steps] → float64 [batch, n, steps].
    """
    if not len(source):
        return np.zeros([0, n, steps])
    return np.stack([np.random.default_rng([seed, *row.tolist()]).random([n, steps]) for row in source])
