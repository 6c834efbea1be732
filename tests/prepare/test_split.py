import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.prepare.shards import Piece
from seq2seq_chat.prepare.split import (
    SPLITS,
    all_splits_filled,
    apportion,
    fill_empty_splits,
    fit_shares,
    hold_out,
    official_splits,
    split_of,
)
from seq2seq_chat.system.errors import UserError

shares = st.tuples(st.integers(1, 99), st.integers(0, 99), st.integers(0, 99))


def test_split_is_stateless_and_matches_the_shares() -> None:
    splits = [split_of(number, (97, 1, 2), 1) for number in range(20_000)]
    assert splits == [split_of(number, (97, 1, 2), 1) for number in range(20_000)]
    sizes = Counter(splits)
    # Within four standard deviations of 19,400, 200 and 400.
    assert abs(sizes["train"] - 19_400) < 97
    assert abs(sizes["validation"] - 200) < 57
    assert abs(sizes["test"] - 400) < 80
    thirds = [1, 1, 0, 2, 1, 2, 2, 1]
    assert [split_of(number, (1, 1, 1), 1) for number in range(8)] == [SPLITS[n] for n in thirds]


def test_what_a_split_depends_on() -> None:
    assert {split_of(number, (1, 0, 0), 3) for number in range(1000)} == {"train"}
    assert {split_of(f"t3_{number}", (1e-300, 0, 1), 3) for number in range(1000)} == {"test"}
    first = [split_of(number, (2, 1, 1), 1) for number in range(100)]
    assert first == [split_of(number, (0.5, 0.25, 0.25), 1) for number in range(100)]
    assert first != [split_of(number, (2, 1, 1), 2) for number in range(100)]


@given(st.integers(0, 200), shares, st.integers(0, 5))
def test_fill_empty_splits(count: int, shares: tuple[int, int, int], seed: int) -> None:
    moved = fill_empty_splits(map(str, range(count)), shares, seed)
    splits = [moved.get(str(number), split_of(number, shares, seed)) for number in range(count)]
    assert all_splits_filled(Counter(splits), shares)
    assert set(moved) <= set(map(str, range(count)))
    if count < sum(map(bool, shares)):
        assert set(splits) <= {"train"}
    else:
        expected = {name for name, share in zip(SPLITS, shares, strict=True) if share}
        assert set(splits) == expected
        assert len(moved) <= 2


@pytest.mark.parametrize(
    "bad",
    [(0, 1, 1), (-1, 1, 1), (97, -1, 2), (1, 2), (1, 1, 1, 1), (math.nan, 1, 1), (math.inf, 1, 1), (1e308, 1e308, 1)],
)
def test_invalid_shares(bad) -> None:
    with pytest.raises(UserError, match="is not a valid split"):
        PrepareSettings("lines", split=bad)


@given(st.integers(0, 200), shares, st.integers(0, 5))
def test_apportion(count: int, shares: tuple[int, int, int], seed: int) -> None:
    sizes = Counter(apportion(map(str, range(count)), shares, seed).values())
    wanted = [name for name, share in zip(SPLITS, shares, strict=True) if share]
    assert sizes.total() == count
    if count < len(wanted):
        assert set(sizes) <= {"train"}
    else:
        assert set(sizes) == set(wanted)
        held_out = zip(SPLITS[1:], shares[1:], strict=True)
        assert all(sizes[name] - 1 <= count * share / sum(shares) for name, share in held_out)


@pytest.mark.parametrize(
    ("rows", "validation", "test"), [(225, 10, 10), (4000, 10, 10), (10_000, 4, 4), (30_000, 4 / 3, 2), (40_000, 1, 2)]
)
def test_a_small_corpus_holds_out_400_or_a_tenth(rows: int, validation: float, test: float) -> None:
    assert fit_shares(rows) == pytest.approx((100 - validation - test, validation, test))


@given(st.lists(st.integers(1, 60), min_size=30), st.integers(0, 5))
def test_hold_out(sizes: list[int], seed: int) -> None:
    """Each split has a tenth, less at most the smallest thread that is left; one that is larger is taken alone."""
    threads, shares = {str(number): size for number, size in enumerate(sizes)}, (80, 10, 10)
    moved = hold_out(threads, shares, seed)
    found = {thread: moved.get(thread, split_of(thread, shares, seed)) for thread in threads}
    left = min(size for thread, size in threads.items() if found[thread] == "train")
    for name in SPLITS[1:]:
        held_out = [threads[thread] for thread, split in found.items() if split == name]
        assert len(held_out) == 1 or sum(held_out) <= sum(sizes) / 10
        assert sum(held_out) > sum(sizes) / 10 - left


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("d_train.txt.gz d_valid.txt d_test.txt", "train validation test"),
        ("TEST.txt Train.txt validation.txt", "test train validation"),
        ("train1.txt train2.txt dev.txt test.txt", "train train validation test"),
        ("train.tsv tst2012.tsv tst2013.tsv newstest2014-fren.tsv", "train test test test"),
        ("train.txt test.txt", "train test"),
        ("a.txt b.txt test.txt", "train train test"),
        ("a.txt newsdev2016.txt", "train validation"),
        ("train/a.txt val/a.txt test/a.txt", "train validation test"),
        ("train.txt test/train.txt", "train test"),  # nothing named test is trained on
        ("train.txt eval.txt", "train test"),
        ("train.txt dev.txt eval.txt", "train validation test"),
        ("train.txt eval.txt test.txt", "train validation test"),
        ("trains.txt contest.txt invalid.txt", None),
        ("train1.txt train2.txt", None),
        ("test.txt", None),
        ("", None),
    ],
)
def test_official_splits(names: str, expected: str | None) -> None:
    folder = Path("corpus", "test")  # above or at the only input, so that it tells nothing
    files = [Piece(folder / name, 1) for name in names.split()]
    assert official_splits(files, [folder]) == (expected and expected.split())


def test_names_of_inputs_and_of_members_of_archives() -> None:
    folders = [Path("dev", "train"), Path("dev", "x.test")]
    files = [Piece(folder / name, 1) for folder in folders for name in ("a.txt", "b.txt")]
    assert official_splits(files, folders) == ["train", "train", "test", "test"]
    archive = Path("test.zip")
    members = [Piece(archive, 1, name) for name in ("c/train/1.xml", "c/dev/1.xml")]
    assert official_splits(members, [archive]) == ["train", "validation"]


def test_files_named_after_people() -> None:
    files = [Piece(Path(f"WhatsApp Chat with {name}.txt"), 1) for name in ("Dev", "Ada", "train")]
    inputs = [file.path for file in files]
    assert official_splits(files[:2], inputs, need_train=True) is None
    assert official_splits(files, inputs, need_train=True) == ["validation", "train", "train"]


def test_there_must_be_something_to_train_on() -> None:
    files = [Piece(Path(name), 1) for name in ("dev.txt", "test.txt")]
    with pytest.raises(CorpusError, match="All inputs are named test or validation"):
        official_splits(files, [file.path for file in files])
