"""Which conversation goes into which split: always whole ones, always the same ones."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from hashlib import md5
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


def split_of(thread: str | int, shares: Shares, seed: int) -> str:
    """The split of a conversation, by its name or number and the seed alone."""
    place = _place(thread, seed)
    train, validation = boundaries(shares)
    if place < train:
        return SPLITS[0]
    return SPLITS[1] if place < validation else SPLITS[2]


def boundaries(shares: Shares) -> tuple[str, str]:
    """The places at which train and validation end, as ``_place`` writes them."""
    cuts = (shares[0] / sum(shares), (shares[0] + shares[1]) / sum(shares))
    train, validation = (round(cut * (1 << 4 * _DIGITS)) for cut in cuts)
    return _written(train), _written(validation)


def is_complete(sizes: Counter[str], shares: Shares) -> bool:
    """Whether the splits, of so many conversations each, are as they should be.

    Every split with a share above zero needs a conversation. A corpus of fewer conversations
    than splits is for training only.
    """
    if sizes.total() < len(SPLITS):
        return sizes["train"] == sizes.total()
    return all(sizes[name] for name, share in zip(SPLITS, shares, strict=True) if share)


def complete_splits(threads: Iterable[str], shares: Shares, seed: int) -> dict[str, str]:
    """The threads, and their splits, that have to be moved so that ``is_complete`` holds.

    A split that got none by ``split_of`` takes, from the split that has most, the conversation
    whose hash is smallest; of fewer conversations than splits all are train.
    """
    ordered = sorted(set(threads), key=lambda thread: _place(thread, seed))
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


_DIGITS = 13  # hexadecimal ones, 52 bits: as many as shares, which are floats, can tell


def _place(thread: str | int, seed: int) -> str:
    """A hash of seed and conversation in as many digits, the same on every machine and in every engine."""
    return md5(f"{seed} {thread}".encode(), usedforsecurity=False).hexdigest()[:_DIGITS]


def _written(place: int) -> str:
    """Hexadecimal; the end of the range is greater than any place as a text."""
    return "g" if place >> 4 * _DIGITS else f"{place:0{_DIGITS}x}"
