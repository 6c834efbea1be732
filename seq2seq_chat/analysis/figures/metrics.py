"""Metrics over the course of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from seq2seq_chat.analysis.figures.style import line_style, new_figure
from seq2seq_chat.metrics.diversity import TOP_REPLIES

PANELS = (
    ("perplexity", "perplexity ↓"),
    ("word_accuracy", "word accuracy ↑"),
    ("bleu", "BLEU ↑"),
    ("sent2vec_distance", "Sent2Vec distance ↓"),
    ("distinct_2", "distinct-2 ↑"),
    ("most_frequent_share", f"share of the {TOP_REPLIES} most frequent replies ↓"),
)


def draw_metrics(runs: Sequence[tuple[str, Sequence[tuple[int, Mapping[str, Any]]]]]) -> Figure:
    """Draw six metrics by training step; each run is its label and the (step, metrics) of its snapshots."""
    figure = new_figure(12, 6)
    for axes, (key, title) in zip(figure.subplots(2, 3).flat, PANELS, strict=True):
        for index, (label, snapshots) in enumerate(runs):
            points = [(step, metrics[key]) for step, metrics in snapshots if metrics[key] is not None]
            if points:
                axes.plot(*zip(*points, strict=True), label=label, **line_style(index))
        axes.set(title=title, xlabel="training steps")
        axes.grid(alpha=0.3)
    if len(runs) > 1:
        axes.legend()
    return figure
