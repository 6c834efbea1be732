"""Learning curves: their values and how they are drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from seq2seq_chat.report.figures.curves import draw_curves, moving_average, read_curves
from seq2seq_chat.runs.run import Run


def test_moving_average_by_hand() -> None:
    np.testing.assert_allclose(moving_average([0, 3, 6, 0, 9], 3), [0, 3, 3, 5, 9])
    np.testing.assert_allclose(moving_average([0, 10, 0, 0, 0, 5], 5), [0, 10 / 3, 2, 3, 5 / 3, 5])
    assert not len(moving_average([], 5))


def test_curves_show_the_logged_losses(tiny_run: Path) -> None:
    curves = read_curves(Run(tiny_run), "tiny")
    assert curves.label.startswith("tiny, ")
    lines = [json.loads(line) for line in (tiny_run / "metrics.jsonl").read_text().splitlines()]
    assert list(curves.train.losses) == [line["loss"] for line in lines if line["kind"] == "train"]
    assert list(curves.validation.steps) == [10, 20]
    minutes = np.cumsum([line["seconds"] for line in lines if line["kind"] == "train"]) / 60
    np.testing.assert_allclose(curves.train.minutes, minutes)
    np.testing.assert_allclose(curves.validation.minutes, minutes[[1, 3]])
    figure = draw_curves([curves, curves])
    measured, smoothed, validation = figure.axes[0].lines[:3]
    assert list(measured.get_ydata()) == list(curves.train.losses)
    assert len(smoothed.get_ydata()) == 4
    assert list(validation.get_ydata()) == list(curves.validation.losses)
    np.testing.assert_allclose(figure.axes[1].lines[0].get_ydata(), np.exp(curves.train.losses))
    assert figure.axes[0].lines[4].get_linestyle() != smoothed.get_linestyle()  # distinguishable in grayscale
