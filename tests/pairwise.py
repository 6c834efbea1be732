"""All-pairs testing: few combinations of settings that together contain every pair of values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Combination = dict[str, Any]


def pairwise(
    values: Mapping[str, Sequence[Any]], is_valid: Callable[[Combination], bool] = lambda combination: True
) -> list[Combination]:
    """Combinations that together contain every pair of values that occurs in a valid combination; greedily chosen."""
    combinations = [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]
    pairs = [set(itertools.combinations(c.items(), 2)) for c in combinations if is_valid(c)]
    missing, chosen = set().union(*pairs), []
    while missing:
        best = max(pairs, key=lambda candidate: len(candidate & missing))
        missing -= best
        chosen.append(dict(itertools.chain.from_iterable(best)))
    return [{name: combination[name] for name in values} for combination in chosen]
