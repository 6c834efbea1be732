"""Score and length of the best reply by beam width, and the ranks of favorite replies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seq2seq_chat.analysis.figures.style import COLORS, new_figure
from seq2seq_chat.analysis.model_view.beams import WIDTHS, BeamStudy, Rank


def draw_beams(studies: Sequence[BeamStudy], ranks: Sequence[Rank]) -> Figure:
    """Draw log-probability and length of the best reply by beam width and, if there are any, the ranks."""
    panel_count = 3 if ranks else 2
    figure = new_figure(4.4 * panel_count, 4.2)
    panels = figure.subplots(1, panel_count)
    _draw_by_width(panels[0], studies, "score", "log-probability, nats", "Log-probability of the best reply")
    _draw_by_width(panels[1], studies, "length", "words", "Length of the best reply")
    if ranks:
        _draw_ranks(panels[2], ranks)
    return figure


def _draw_by_width(axes: Axes, studies: Sequence[BeamStudy], attribute: str, ylabel: str, title: str) -> None:
    """Draw an attribute of the best replies by beam width: each utterance pale, their mean strong."""
    by_width: dict[int, list[float]] = {}
    for study in studies:
        values = {best.width: getattr(best, attribute) for best in study.best}
        axes.plot(list(values), list(values.values()), color="0.8", linewidth=0.7)
        for width, value in values.items():
            by_width.setdefault(width, []).append(value)
    widths = sorted(by_width)
    means = [float(np.mean(by_width[width])) for width in widths]
    axes.plot(widths, means, color=COLORS[attribute == "length"], marker="o", label="mean")
    axes.plot([], [], color="0.8", label="single utterances")
    axes.set(xscale="log", xlabel="beam width", ylabel=ylabel, title=title)
    _set_width_ticks(axes, widths)
    axes.legend()


def _draw_ranks(axes: Axes, ranks: Sequence[Rank]) -> None:
    """Draw the cumulative distribution of ranks."""
    positions = np.sort([rank.rank for rank in ranks])
    widest = max(rank.size for rank in ranks)
    shares = np.arange(1, len(positions) + 1) / len(positions) * 100
    axes.step(positions, shares, where="post", color=COLORS[2], linewidth=2)
    axes.set(
        xscale="log",
        xlim=(0.9, 1.1 * widest),
        xlabel="rank by probability in the widest beam",
        ylabel="% of utterances",
        ylim=(0, 105),
        title="Rank of the favorite reply (cumulative)",
    )
    _set_width_ticks(axes, [width for width in WIDTHS if width <= widest])


def _set_width_ticks(axes: Axes, widths: Sequence[int]) -> None:
    axes.set_xticks(widths, [str(width) for width in widths])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
