"""The operations of a training step, counted by hand."""

from __future__ import annotations

from contenders.workload import Size


def test_step_flop_counts_all_matrix_products() -> None:
    size = Size(embedding=3, hidden=2, projection=5, vocabulary=50, sampled=7, batch=1, steps=4)
    encoder = 3 * 8 + 2 * 8 + 2 * 2  # [x] and [h] to four gates, h to a key
    decoder = 3 * 8 + 2 * 8 + 2 * 8 + 2 * 2 + 4 * 2 + 2 * 2 * 2 + 2 * 5  # [x; h̃; h], query, weighted sum, h̃, projection
    softmax = (7 + 1) * 5
    assert size.forward_products() == 4 * (encoder + decoder + softmax)
    assert size.step_flop() == 6 * size.forward_products()


def test_a_step_at_thesis_size_takes_a_teraflop() -> None:
    size = Size(1024, 2048, 1024, 50_000, 512)
    assert 0.9e12 < size.step_flop() < 1.1e12
