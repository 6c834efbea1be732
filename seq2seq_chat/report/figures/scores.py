"""BLEU by the length of the source, of one or several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from seq2seq_chat.metrics.ngrams import ORDERS, TOP_REPLIES, NgramProfile, ngram_text
from seq2seq_chat.report.figures.style import COLORS, line_style, new_figure, plot_label
from seq2seq_chat.text.vocabulary import Vocabulary

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


TOP_NGRAMS = 30  # in a bar chart
MAX_POINTS = 300  # of a rank curve


def draw_rank_frequency(profiles: Sequence[NgramProfile]) -> Figure:
    """Relative frequency by rank for each n; Zipf's law is a straight line."""
    figure = new_figure(15, 4.6)
    for axes, (n, name) in zip(figure.subplots(1, len(ORDERS)), ORDERS.items(), strict=True):
        for index, profile in enumerate(profiles):
            counts = np.sort(profile.orders[n].counts)[::-1]
            if len(counts):
                ranks = np.unique(np.geomspace(1, len(counts), MAX_POINTS).astype(int))
                style = line_style(index, marker=False) | {"linewidth": 2.5 if index == 0 else 1.4}
                axes.plot(ranks, counts[ranks - 1] / counts.sum(), label=plot_label(profile.label), **style)
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="rank",
            ylabel="relative frequency",
            title=f"{name.capitalize()} by rank",
        )
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend()
    return figure


def draw_top_ngrams(profile: NgramProfile, corpus: NgramProfile, vocabulary: Vocabulary) -> Figure:
    """The most frequent n-grams of a profile, next to their frequency in the training corpus."""
    figure = new_figure(15, 2.2 + 0.24 * TOP_NGRAMS)
    for axes, (n, name) in zip(figure.subplots(1, len(ORDERS)), ORDERS.items(), strict=True):
        codes = profile.orders[n].top(TOP_NGRAMS)
        positions = np.arange(len(codes))
        for index, shown in enumerate((profile, corpus)):
            axes.barh(
                positions + 0.4 * index - 0.2,
                100 * shown.orders[n].shares(codes),
                height=0.4,
                color=COLORS[index],
                hatch=("", "////")[index],
                edgecolor="white",
                linewidth=0,
                label=plot_label(shown.label),
            )
        axes.set_yticks(positions, [plot_label(ngram_text(code, n, vocabulary)) for code in codes])
        axes.margins(y=0.01)
        axes.invert_yaxis()
        axes.set(xlabel="relative frequency, %", title=f"The {len(codes)} most frequent {name}")
        axes.grid(alpha=0.3, axis="x")
        if len(codes):
            axes.legend(loc="lower right")
    return figure


def draw_divergences(
    steps: Sequence[int],
    replies: Sequence[Mapping[int, float | None]],
    references: Mapping[int, float | None],
) -> Figure:
    """Divergence from the training corpus over training, in bits, for each n.

    Args:
        steps: training steps of the snapshots.
        replies: divergence of each snapshot's replies, by n.
        references: divergence of the reference replies, by n, drawn as horizontal lines.
    """
    figure = new_figure(7, 4)
    axes = figure.subplots()
    for index, (n, name) in enumerate(ORDERS.items()):
        points = [(step, value[n]) for step, value in zip(steps, replies, strict=True) if value[n] is not None]
        if points:
            axes.plot(*zip(*points, strict=True), label=name, **line_style(index))
        reference = references[n]
        if reference is not None:
            style = line_style(index, marker=False)
            axes.axhline(reference, label=f"{name}, reference replies", alpha=0.5, linewidth=1, **style)
    axes.set(
        xlabel="training steps",
        ylabel="Jensen–Shannon divergence, bits",
        title="Divergence of the replies from the training corpus",
        ylim=(0, 1),
    )
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure
