"""Split a corpus into train, validation and test by conversation, reproducibly."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from hashlib import md5
from pathlib import Path

from seq2seq_chat.system.errors import UserError

SPLITS = ("train", "validation", "test")
Shares = tuple[float, float, float]
"""Relative sizes of train, validation and test."""

DEFAULT_SHARES: Shares = (97, 1, 2)

_SPLIT_IN_NAME = re.compile(r"(?<![a-z])(train|validation|valid|val|dev|test)(?![a-z])")


def check_shares(shares: Shares) -> None:
    """Raise a UserError unless there are three non-negative shares, of which train's is positive."""
    if len(shares) != len(SPLITS) or not all(0 <= share < math.inf for share in shares) or not shares[0]:
        raise UserError(
            f"{tuple(shares)} is not a valid split. Use three non-negative numbers for train, validation and test, "
            "such as 97, 1 and 2; train must be positive."
        )


def split_of(thread: str | int, shares: Shares, seed: int) -> str:
    """The split of a thread (a name or number), which depends only on the thread and the seed."""
    thread_hash = _hash(thread, seed)
    train, validation = hash_thresholds(shares)
    if thread_hash < train:
        return SPLITS[0]
    return SPLITS[1] if thread_hash < validation else SPLITS[2]


def hash_thresholds(shares: Shares) -> tuple[str, str]:
    """The hashes at which train and validation end, in the format of ``_hash``."""
    limits = (shares[0] / sum(shares), (shares[0] + shares[1]) / sum(shares))
    train, validation = (round(limit * (1 << 4 * _DIGITS)) for limit in limits)
    return _hexadecimal(train), _hexadecimal(validation)


def all_splits_filled(sizes: Counter[str], shares: Shares) -> bool:
    """Whether every split with a positive share has a thread.

    A corpus of fewer threads than splits must be all train.
    """
    if sizes.total() < len(SPLITS):
        return sizes["train"] == sizes.total()
    return all(sizes[name] for name, share in zip(SPLITS, shares, strict=True) if share)


def fill_empty_splits(threads: Iterable[str], shares: Shares, seed: int) -> dict[str, str]:
    """The threads to move to other splits so that ``all_splits_filled``, by thread.

    A split that is empty by ``split_of`` takes the thread with the smallest hash from the largest split. With fewer
    threads than splits, all move to train.
    """
    ordered = sorted(set(threads), key=lambda thread: _hash(thread, seed))
    if len(ordered) < len(SPLITS):
        return dict.fromkeys(ordered, "train")
    splits = {thread: split_of(thread, shares, seed) for thread in ordered}
    moved: dict[str, str] = {}
    for name, share in zip(SPLITS, shares, strict=True):
        sizes = Counter(splits.values())
        if share and not sizes[name]:
            largest = max(SPLITS, key=lambda other: sizes[other])
            thread = next(thread for thread in ordered if splits[thread] == largest)
            splits[thread] = moved[thread] = name
    return moved


def official_splits(files: Iterable[Path]) -> dict[Path, str] | None:
    """The split of each file by its name, or None unless every name has one and all three splits occur.

    The split of a name is the word train, validation (or valid, val, dev) or test in it.
    """
    splits: dict[Path, str] = {}
    for file in files:
        names = set(_SPLIT_IN_NAME.findall(file.name.lower()))
        if len(names) != 1:
            return None
        name = names.pop()
        splits[file] = "validation" if name in ("valid", "val", "dev") else name
    return splits if set(splits.values()) == set(SPLITS) else None


_DIGITS = 13  # hexadecimal: 52 bits, the precision of shares, which are floats


def _hash(thread: str | int, seed: int) -> str:
    """A hash of the thread and the seed, equal on every machine and in every engine."""
    return md5(f"{seed} {thread}".encode(), usedforsecurity=False).hexdigest()[:_DIGITS]


def _hexadecimal(threshold: int) -> str:
    """The format of ``_hash``; 1 << 52, the end of the range, becomes "g", which sorts after every hash."""
    return "g" if threshold >> 4 * _DIGITS else f"{threshold:0{_DIGITS}x}"
