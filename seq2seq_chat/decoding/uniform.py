"""The random numbers of sampling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Seeds = int | Sequence[int] | npt.NDArray[np.int64]


def uniform_numbers(seeds: Seeds, source: np.ndarray, n: int, steps: int) -> np.ndarray:
    """Random numbers in [0, 1) for each utterance.

    seeds: one for each utterance, or one for all, source: ids int32 [batch, source steps] → float64 [batch, n, steps].
    """
    numbers = np.zeros([len(source), n, steps])
    for row, seed in enumerate(np.broadcast_to(seeds, len(source)).tolist() if n else ()):
        numbers[row] = np.random.default_rng([seed, *source[row].tolist()]).random([n, steps])
    return numbers
