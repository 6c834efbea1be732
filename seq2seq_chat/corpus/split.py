"""Which conversation goes into which split: always whole ones, always the same ones."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

from seq2seq_chat.errors import UserError

SPLITS = ("train", "validation", "test")
Shares = tuple[float, float, float]
"""Relative sizes of train, validation and test."""

DEFAULT_SHARES: Shares = (97, 1, 2)

_SPLIT_IN_NAME = re.compile(r"(?<![a-z])(train|validation|valid|val|dev|test)(?![a-z])")


def check_shares(shares: Shares) -> None:
    """Raise a UserError unless the shares are none below zero and train has some."""
    if len(shares) != len(SPLITS) or not all(0 <= share < math.inf for share in shares) or not shares[0]:
        raise UserError(
            f"A corpus cannot be split by {tuple(shares)}. Give three numbers of zero or more for "
            "train, validation and test, such as 97, 1 and 2; train must not be zero."
        )


def split_of(number: int, shares: Shares, seed: int) -> str:
    """The split of a conversation, by its number and the seed alone."""
    place = _place(number, seed) * sum(shares)
    if place < shares[0]:
        return "train"
    return "validation" if place < shares[0] + shares[1] else "test"


def is_complete(sizes: Counter[str], shares: Shares) -> bool:
    """Whether the splits, of so many conversations each, are as they should be.

    Every split with a share above zero needs a conversation. A corpus of fewer conversations
    than splits is for training only.
    """
    if sizes.total() < len(SPLITS):
        return sizes["train"] == sizes.total()
    return all(sizes[name] for name, share in zip(SPLITS, shares, strict=True) if share)


def complete_splits(count: int, shares: Shares, seed: int) -> list[str]:
    """The split of each of ``count`` conversations, so that ``is_complete`` holds.

    A split that got none by ``split_of`` takes, from the split that has most, the conversation
    whose hash is smallest.
    """
    if count < len(SPLITS):
        return ["train"] * count
    splits = [split_of(number, shares, seed) for number in range(count)]
    order = sorted(range(count), key=lambda number: _place(number, seed))
    for name, share in zip(SPLITS, shares, strict=True):
        if share and name not in splits:
            largest = max(SPLITS, key=splits.count)
            splits[next(number for number in order if splits[number] == largest)] = name
    return splits


def official_splits(files: Iterable[Path]) -> dict[Path, str] | None:
    """The split of each file by its name, if every name tells one and all three are there.

    A name tells its split by one of the words train, validation (or valid, val, dev) and test.
    """
    splits: dict[Path, str] = {}
    for file in files:
        found = set(_SPLIT_IN_NAME.findall(file.name.lower()))
        if len(found) != 1:
            return None
        name = found.pop()
        splits[file] = "validation" if name in ("valid", "val", "dev") else name
    return splits if set(splits.values()) == set(SPLITS) else None


def _place(number: int, seed: int) -> float:
    """A hash of seed and number in [0, 1), the same on every machine."""
    digest = blake2b(f"{seed} {number}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)  # 53 bits: exact in a float
