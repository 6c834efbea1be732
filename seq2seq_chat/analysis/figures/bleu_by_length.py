"""BLEU by the length of the source, of one or several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from seq2seq_chat.analysis.figures.style import line_style, new_figure, plot_label

_SHIFT = 0.005  # between the points of two runs, as a share of the longest length


def draw_bleu_by_length(
    runs: Mapping[str, Sequence[Mapping[str, Any]]], source: str = "source", score: str = "BLEU"
) -> Figure:
    """Draw a curve with 95 % intervals for each run.

    Args:
        runs: label → the rows of :func:`bleu_by_source_length`.
        source: what a source is called.
        score: the label of the score.
    """
    figure = new_figure(7, 4.4)
    axes = figure.subplots()
    longest = max(row["mean_length"] or 0 for rows in runs.values() for row in rows)
    for index, (label, rows) in enumerate(runs.items()):
        points = [row for row in rows if row["samples"]]
        shift = longest * _SHIFT * (index - (len(runs) - 1) / 2)  # so that no interval hides another
        bleu = np.array([row["bleu"] for row in points])
        low, high = np.array([row["bleu_interval"] for row in points]).T
        axes.errorbar(
            [row["mean_length"] + shift for row in points],
            bleu,
            np.maximum(0, [bleu - low, high - bleu]),  # an interval may lie beside its score
            capsize=2,
            elinewidth=1,
            label=plot_label(label),
            **line_style(index),
        )
    axes.set(xlabel=f"length of the {source}, tokens", ylabel=score, title=f"BLEU by the length of the {source}")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
