"""What the benchmarks count: the arithmetic of a step, by hand."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from contenders.workload import Size


def test_arithmetic_of_a_step_is_that_of_its_matrix_products() -> None:
    size = Size(embedding=3, hidden=2, projection=5, vocabulary=50, sampled=7, batch=1, steps=4)
    encoder = 3 * 8 + 2 * 8 + 2 * 2  # [x] and [h] to four gates, h to a key
    decoder = 3 * 8 + 2 * 8 + 2 * 8 + 2 * 2 + 4 * 2 + 2 * 2 * 2 + 2 * 5  # [x; h̃; h], query, weighted sum, h̃, projection
    softmax = (7 + 1) * 5
    assert size.forward_products() == 4 * (encoder + decoder + softmax)
    assert size.step_flop() == 6 * size.forward_products()


def test_the_thesis_size_is_a_teraflop_a_step() -> None:
    size = Size(1024, 2048, 1024, 50_000, 512)
    assert 0.9e12 < size.step_flop() < 1.1e12
