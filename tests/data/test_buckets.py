"""Buckets: every sample fits into its bucket, at the lowest cost."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.data.batches import choose_buckets, complete_buckets, cost, route
from seq2seq_chat.system.errors import UserError

LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 8)), min_size=1, max_size=60)


@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS, max_buckets=st.integers(1, 4))
def test_samples_are_in_the_cheapest_bucket_they_fit_into(lengths: list[tuple[int, int]], max_buckets: int) -> None:
    source, target = np.array(lengths, np.int32).T
    limits = (6, 6)
    buckets = choose_buckets(source, target, limits, max_buckets)
    assert 1 <= len(buckets) <= max_buckets and buckets[-1] == limits
    members = route(source, target, buckets)
    assert sorted(itertools.chain(*members)) == list(range(len(lengths)))
    for bucket, samples in zip(buckets, members, strict=True):
        for sample in samples:
            fitting = [b for b in buckets if source[sample] <= b[0] and target[sample] <= b[1]]
            assert cost(bucket) == min(map(cost, fitting or [limits]))


def test_two_buckets_are_optimal() -> None:
    rng = np.random.default_rng(1)
    source, target = rng.integers(1, 8, 300).astype(np.int32), rng.integers(1, 8, 300).astype(np.int32)

    def total(buckets: list[tuple[int, int]]) -> float:
        return sum(cost(b) * len(m) for b, m in zip(buckets, route(source, target, buckets), strict=True))

    candidates = [complete_buckets([pair], (7, 7)) for pair in itertools.product(range(1, 8), repeat=2)]
    assert total(choose_buckets(source, target, (7, 7), 2)) == min(map(total, candidates))


def test_buckets_of_long_models() -> None:
    """Of the hundreds of steps of a character model, only some are candidates."""
    rng = np.random.default_rng(1)
    source, target = rng.integers(1, 300, (2, 1000)).astype(np.int32)
    buckets = choose_buckets(source, target, (250, 200), 4)
    assert len(buckets) == 4 and buckets[-1] == (250, 200)
    padded = sum(cost(b) * len(m) for b, m in zip(buckets, route(source, target, buckets), strict=True))
    assert padded < 0.9 * cost((250, 200)) * len(source)


def test_buckets_larger_than_the_model_are_rejected() -> None:
    with pytest.raises(UserError, match=r"\[40, 10\] is larger than the model's steps"):
        complete_buckets([(40, 10)], (30, 30))
    assert complete_buckets([(20, 20), (10, 10), (30, 30)], (30, 30)) == [(10, 10), (20, 20), (30, 30)]
