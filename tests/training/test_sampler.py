"""The order of samples: every sample once an epoch, the same for the same seed, mixed differently each time."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.training.order import SampleOrder


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4).filter(any),
    batch_size=st.integers(1, 9),
    seed=st.integers(0, 2**31 - 1),
    epoch=st.integers(0, 3),
)
def test_every_epoch_sees_every_sample_once(sizes: list[int], batch_size: int, seed: int, epoch: int) -> None:
    order = SampleOrder(sizes, batch_size, seed)
    assert order.steps_per_epoch == sum(-(-size // batch_size) for size in sizes)
    seen: Counter[tuple[int, int]] = Counter()
    for step in range(epoch * order.steps_per_epoch, (epoch + 1) * order.steps_per_epoch):
        bucket, places = order.batch(step)
        assert 1 <= len(places) <= batch_size
        seen.update((bucket, int(place)) for place in places)
    assert seen == Counter((bucket, place) for bucket, size in enumerate(sizes) for place in range(size))


def test_the_order_is_a_function_of_seed_and_step() -> None:
    def places(seed: int, step: int) -> list[int]:
        return SampleOrder([1000], 64, seed).batch(step)[1].tolist()

    assert places(1, 3) == places(1, 3)
    assert places(1, 3) != places(2, 3)
    assert places(1, 3) != places(1, 3 + SampleOrder([1000], 64, 1).steps_per_epoch)


def test_a_large_corpus_is_mixed_without_a_list_of_it() -> None:
    order = SampleOrder([160_000_000], 64, seed=1)
    drawn = np.concatenate([order.batch(step)[1] for step in range(200)])
    assert len(set(drawn.tolist())) == len(drawn)
    # uniform over the corpus: each tenth holds about a tenth of 12,800 places (standard deviation 34)
    counts, _ = np.histogram(drawn, bins=10, range=(0, 160_000_000))
    assert np.all(np.abs(counts - 1280) < 6 * 34)


def test_neighbours_do_not_stay_together() -> None:
    drawn = SampleOrder([10_000], 64, seed=1).batch(0)[1]
    assert np.count_nonzero(np.abs(np.diff(drawn)) < 10) < 5


def test_batches_of_all_buckets_are_mixed() -> None:
    order = SampleOrder([640, 640], 64, seed=1)
    buckets = [order.batch(step)[0] for step in range(20)]
    assert Counter(buckets) == {0: 10, 1: 10}
    assert buckets not in ([0] * 10 + [1] * 10, [1] * 10 + [0] * 10)


def test_an_empty_corpus_has_no_order() -> None:
    with pytest.raises(ValueError, match="no samples"):
        SampleOrder([0], 64, seed=1)
