from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.prepare.split import (
    SPLITS,
    all_splits_filled,
    check_shares,
    fill_empty_splits,
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
    if count < 3:
        assert set(splits) <= {"train"}
    else:
        expected = {name for name, share in zip(SPLITS, shares, strict=True) if share}
        assert set(splits) == expected
        assert len(moved) <= 2


@pytest.mark.parametrize("bad", [(0, 1, 1), (-1, 1, 1), (97, -1, 2), (1, 2), (1, 1, 1, 1)])
def test_invalid_shares(bad) -> None:
    with pytest.raises(UserError, match="is not a valid split"):
        check_shares(bad)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["d_train.txt.gz", "d_valid.txt", "d_test.txt"], ["train", "validation", "test"]),
        (["TEST.txt", "Train.txt", "validation.txt"], ["test", "train", "validation"]),
        (["train1.txt", "train2.txt", "valid.txt", "test.txt"], ["train"] * 2 + ["validation", "test"]),
        (["train.txt", "test.txt"], None),
        (["train.txt", "test.txt", "valid.txt", "more.txt"], None),
        (["trains.txt", "contest.txt", "invalid.txt"], None),
        (["train_test.txt", "valid.txt", "test.txt", "train.txt"], None),
        ([], None),
    ],
)
def test_official_splits(names: list[str], expected: list[str] | None) -> None:
    files = [Path("train", name) for name in names]
    splits = official_splits(files)
    assert splits == (None if expected is None else dict(zip(files, expected, strict=True)))
