"""The points and intervals of the curves."""

from __future__ import annotations

from typing import Any

import pytest

from seq2seq_chat.report.figures.scores import draw_bleu_by_length


def row(samples: int, length: float | None, bleu: float | None, interval: tuple[float, float] | None) -> dict[str, Any]:
    return {"samples": samples, "mean_length": length, "bleu": bleu, "bleu_interval": interval}


def test_points_and_intervals() -> None:
    """Bins without samples are left out; runs lie side by side around the mean length."""
    one = [row(40, 4.0, 30.0, (28.0, 33.0)), row(35, 20.0, 10.0, (9.0, 12.0))]
    other = [row(40, 4.0, 20.0, (18.0, 23.0)), row(0, None, None, None)]
    (axes,) = draw_bleu_by_length({"one": one, "other": other}).axes
    (first, second) = [container.lines for container in axes.containers]
    assert first[0].get_ydata().tolist() == [30.0, 10.0]
    assert second[0].get_ydata().tolist() == [20.0]
    assert (first[0].get_xdata()[0] + second[0].get_xdata()[0]) / 2 == pytest.approx(4.0)
    segments = first[2][0].get_segments()
    assert [segment[:, 1].tolist() for segment in segments] == [[28.0, 33.0], [9.0, 12.0]]
    assert axes.get_ylim()[0] == 0
