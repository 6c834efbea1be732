"""All-pairs testing: few combinations of settings that together contain every pair of values."""

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

MAX_CANDIDATES = 3000  # of all combinations, a random sample of this size is considered

Combination = dict[str, Any]


def pairwise(
    values: Mapping[str, Sequence[Any]],
    is_valid: Callable[[Combination], bool] = lambda combination: True,
    size: int = 2,
) -> list[Combination]:
    """Valid combinations that together contain every pair of values of any valid one; greedily chosen.

    With ``size`` 1 they contain every value, with 3 every triple.
    """
    tuples = [set(itertools.combinations(c.items(), size)) for c in _candidates(values) if is_valid(c)]
    missing, chosen = set().union(*tuples), []
    while missing:
        best = max(tuples, key=lambda candidate: len(candidate & missing))
        missing -= best
        chosen.append(dict(itertools.chain.from_iterable(best)))
    return [{name: combination[name] for name in values} for combination in chosen]


def _candidates(values: Mapping[str, Sequence[Any]]) -> Iterable[Combination]:
    if math.prod(map(len, values.values())) <= MAX_CANDIDATES:
        return (dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values()))
    rng = random.Random(0)
    return [{name: rng.choice(options) for name, options in values.items()} for _ in range(MAX_CANDIDATES)]
