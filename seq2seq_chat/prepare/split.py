"""Split a corpus into train, validation and test by conversation, reproducibly."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import md5
from pathlib import Path, PurePosixPath
from string import digits

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.shards import Piece
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.tables import pluralize

SPLITS = ("train", "validation", "test")
Shares = tuple[float, float, float]
"""Relative sizes of train, validation and test."""

DEFAULT_SHARES: Shares = (97, 1, 2)
_HELD_OUT, _HELD_OUT_SHARE = 400, 0.1  # utterances of validation and of test: so many, but not a larger share

_SPLIT_NAMES = {
    "test": {"test", "testing", "tst", "newstest", "devtest"},
    "eval": {"eval", "evaluation"},  # test, or validation if only that is missing
    "validation": {"validation", "valid", "val", "dev", "devel", "newsdev"},
    "train": {"train", "training"},
}
_MAY_NAME_A_SPLIT = re.compile("test|tst|val|dev", re.IGNORECASE)
_NAME_PART = re.compile(r"[^\W_]+")


def check_shares(shares: Shares) -> None:
    """Raise a UserError unless there are three non-negative shares, of which train's is positive."""
    if len(shares) != len(SPLITS) or not (
        shares[0] and all(share >= 0 for share in shares) and math.isfinite(sum(shares))
    ):
        raise UserError(
            f"{tuple(shares)} is not a valid split. Use three non-negative numbers for train, validation and test, "
            "such as 97, 1 and 2; train must be positive."
        )


def fit_shares(rows: int) -> Shares:
    """DEFAULT_SHARES or, for a corpus of few utterances or pairs, larger shares of validation and test."""
    validation, test = (
        max(share, 100 * min(_HELD_OUT_SHARE, _HELD_OUT / max(rows, 1))) for share in DEFAULT_SHARES[1:]
    )
    return 100 - validation - test, validation, test


def split_of(thread: str | int, shares: Shares, seed: int) -> str:
    """The split of a thread (a name or number), which depends only on the thread and the seed."""
    return SPLITS[sum(_hash(thread, seed) >= threshold for threshold in hash_thresholds(shares))]


def hash_thresholds(shares: Shares) -> tuple[str, str]:
    """The hashes at which train and validation end, in the format of ``_hash``."""
    limits = (shares[0] / sum(shares), (shares[0] + shares[1]) / sum(shares))
    train, validation = (round(limit * (1 << 4 * _DIGITS)) for limit in limits)
    return _hexadecimal(train), _hexadecimal(validation)


def all_splits_filled(sizes: Counter[str], shares: Shares) -> bool:
    """Whether every split with a positive share has a thread.

    A corpus of fewer threads than such splits must be all train.
    """
    if sizes.total() < sum(map(bool, shares)):
        return sizes["train"] == sizes.total()
    return all(sizes[name] for name, share in zip(SPLITS, shares, strict=True) if share)


def fill_empty_splits(threads: Iterable[str], shares: Shares, seed: int) -> dict[str, str]:
    """The threads to move to other splits so that ``all_splits_filled``, by thread.

    A split that is empty by ``split_of`` takes the thread with the smallest hash from the largest split. With fewer
    threads than splits, all move to train.
    """
    ordered = sorted(set(threads), key=lambda thread: _hash(thread, seed))
    if len(ordered) < sum(map(bool, shares)):
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


def apportion(threads: Iterable[str], shares: Shares, seed: int) -> dict[str, str]:
    """The splits of a few threads of equal size, as close to the shares as their number allows, and none empty."""
    ordered = sorted(set(threads), key=lambda thread: _hash(thread, seed))
    if len(ordered) < sum(map(bool, shares)):
        return dict.fromkeys(ordered, "train")
    sizes = {
        name: max(1, round(len(ordered) * share / sum(shares)))
        for name, share in zip(SPLITS[1:], shares[1:], strict=True)
        if share
    }
    names = [*sizes, *(name for name, size in sizes.items() for _ in range(size - 1))][: len(ordered) - 1]
    return dict(zip(ordered, [*names, *["train"] * (len(ordered) - len(names))], strict=True))


def hold_out(sizes: Mapping[str, int], shares: Shares, seed: int) -> dict[str, str]:
    """The threads to move so that validation and test have their shares of the utterances, by thread.

    Threads are taken in the order of their hashes, without those that would make a split too large. If all would, it
    takes the smallest.

    Args:
        sizes: The utterances of each thread.
        shares: Of ``fit_shares``.
    """
    ordered, total = sorted(sizes, key=lambda thread: _hash(thread, seed)), sum(sizes.values())
    splits = dict.fromkeys(ordered, SPLITS[0])
    for name, share in zip(SPLITS[1:], shares[1:], strict=True) if len(ordered) >= len(SPLITS) else ():
        size, left = 0, [thread for thread in ordered if splits[thread] == SPLITS[0]]
        for thread in left:
            if size < total * share / sum(shares) and size + sizes[thread] <= total * _HELD_OUT_SHARE:
                splits[thread], size = name, size + sizes[thread]
        if not size:
            splits[min(left, key=lambda thread: sizes[thread])] = name
    return {thread: name for thread, name in splits.items() if name != split_of(thread, shares, seed)}


def official_splits(
    files: Sequence[Piece], inputs: Sequence[str | Path], *, need_train: bool = False
) -> list[str] | None:
    """The split of each file as the names of the files and of their folders tell, from the inputs downwards.

    What holds data out of training takes precedence in a name, or in several ones. Files without such a name are train.
    None if there is nothing but train, or a single file, which has to be divided.

    Args:
        need_train: Names count only if one says train: files may be named after people, who may be called Val or Dev.

    Raises:
        CorpusError: There is no train.
    """
    if len(files) < 2 or not any(_MAY_NAME_A_SPLIT.search(str(file)) for file in files):
        return None
    splits = [_split_in_names(names) for names in _names_of_files(files, inputs)]
    if need_train and "train" not in splits:
        return None
    if "eval" in splits:
        eval_split = "validation" if "test" in splits and "validation" not in splits else "test"
        splits = [eval_split if split == "eval" else split for split in splits]
    splits = [split or "train" for split in splits]
    if set(splits) == {"train"}:
        return None
    if "train" not in splits:
        raise CorpusError(
            f"All inputs are named test or validation, as {files[0]}; these are never trained on. "
            "Name a file for training as well, or divide them with --split 97,1,2."
        )
    return splits


def _names_of_files(files: Sequence[Piece], inputs: Sequence[str | Path]) -> Iterator[Sequence[str]]:
    """The names of each file and of its folders in an input, and the input's name if there are several."""
    entries = {str(Path(entry)) for entry in inputs}
    for file in files:
        path = file.path
        entry = next((parent for parent in reversed([path, *path.parents]) if str(parent) in entries), path)
        names = [*path.relative_to(entry).parts, *PurePosixPath(file.member or "").parts]
        yield names if len(entries) == 1 and names else [entry.name, *names]


def is_split_name(name: str) -> bool:
    """Whether a folder is named like a split and nothing else."""
    return _NAME_PART.fullmatch(name) is not None and _split_in_names([name]) != ""


def _split_in_names(names: Iterable[str]) -> str:
    parts = {part.rstrip(digits) for name in names for part in _NAME_PART.findall(name.lower())}
    return next((split for split, words in _SPLIT_NAMES.items() if parts & words), "")


def missing_shares(official: Sequence[str], shares: Shares) -> Shares:
    """The shares by which train is divided so that it provides the splits that are missing; the other shares are 0."""
    train, validation, test = (
        share if name == "train" or name not in official else 0 for name, share in zip(SPLITS, shares, strict=True)
    )
    return train, validation, test


def describe_split(official: Sequence[str] | None, shares: Shares, how: str = "at random") -> str:
    """How a corpus is split, for people. ``shares`` is what ``missing_shares`` returns if the split is official."""
    percentages = {
        name: f"{100 * share / sum(shares):.3g} %" for name, share in zip(SPLITS, shares, strict=True) if share
    }
    if official is None:
        return f"{how}: " + ", ".join(f"{name} {share}" for name, share in percentages.items())
    taken = [f"{name} ({share} of train)" for name, share in percentages.items() if name != "train"]
    counts = Counter(official)
    named = ", ".join(f"{name} {pluralize(counts[name], 'file')}" for name in SPLITS if counts[name])
    return f"as the names of the files say: {named}" + (f"; taken from train: {' and '.join(taken)}" if taken else "")


_DIGITS = 13  # hexadecimal: 52 bits, the precision of shares, which are floats


def _hash(thread: str | int, seed: int) -> str:
    """A hash of the thread and the seed, equal on every machine and in every engine."""
    return md5(f"{seed} {thread}".encode(), usedforsecurity=False).hexdigest()[:_DIGITS]


def _hexadecimal(threshold: int) -> str:
    """The format of ``_hash``; 1 << 52, the end of the range, becomes "g", which sorts after every hash."""
    return "g" if threshold >> 4 * _DIGITS else f"{threshold:0{_DIGITS}x}"
