"""BLEU by the length of the source, of one or several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from seq2seq_chat.analysis.figures.style import COLORS, line_style, new_figure, plot_label


def draw_bleu_by_length(runs: Mapping[str, Sequence[Mapping[str, Any]]], source: str = "source") -> Figure:
    """Draw a curve with 95 % intervals for each run.

    Args:
        runs: label → the rows of :func:`bleu_by_source_length`.
        source: what a source is called.
    """
    figure = new_figure(7, 4.4)
    axes = figure.subplots()
    for index, (label, rows) in enumerate(runs.items()):
        points = [row for row in rows if row["samples"]]
        lengths = [row["mean_length"] for row in points]
        low, high = zip(*(row["bleu_interval"] for row in points), strict=True)
        axes.fill_between(lengths, low, high, color=COLORS[index % len(COLORS)], alpha=0.15, linewidth=0)
        axes.plot(lengths, [row["bleu"] for row in points], label=plot_label(label), **line_style(index))
    axes.set(xlabel=f"length of the {source}, tokens", ylabel="BLEU", title=f"BLEU by the length of the {source}")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
