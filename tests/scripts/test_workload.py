"""The operations of a training step, counted by hand."""

from __future__ import annotations

import pytest
from contenders.workload import Size


def test_step_flop_counts_all_matrix_products() -> None:
    size = Size(embedding=3, hidden=2, projection=5, vocabulary=50, sampled=7, batch=1, steps=4)
    encoder = 3 * 8 + 2 * 8 + 2 * 2  # [x] and [h] to four gates, h to a key
    decoder = 3 * 8 + 2 * 8 + 2 * 8 + 2 * 2 + 4 * 2 + 2 * 2 * 2 + 2 * 5  # [x; h̃; h], query, weighted sum, h̃, projection
    softmax = (7 + 1) * 5
    assert size.forward_products() == 4 * (encoder + decoder + softmax)
    assert size.step_flop() == 6 * size.forward_products()
    assert 0.9e12 < Size(1024, 2048, 1024, 50_000, 512).step_flop() < 1.1e12  # the thesis's


def test_the_limit_of_a_search_is_memory_for_one_row_and_products_for_many() -> None:
    size = Size(embedding=3, hidden=2, projection=5, vocabulary=50, sampled=7, batch=1, steps=4)
    encoder, decoder = 3 * 8 + 2 * 8 + 2 * 2, 3 * 8 + 2 * 8 + 2 * 8 + 2 * 2 + 2 * 2 + 2 * 5 + 5 * 50
    assert size.min_search_seconds(1, 1, 100.0, 1e9) == pytest.approx(4 * 4 * (encoder + decoder) / 100)
    products = 4 * 3 * encoder + 3 * decoder + 3 * 3 * 10 * decoder  # the first word has one hypothesis
    assert size.min_search_seconds(3, 10, 1e9, 100.0) == pytest.approx(2 * products / 100)
