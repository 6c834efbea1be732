"""Curves of losses in training, of scores and metrics of snapshots, and of frequencies of words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from seq2seq_chat.metrics.ngrams import ORDERS, TOP_REPLIES, NgramProfile, ngram_text
from seq2seq_chat.report.figures.style import COLORS, label_axes, legend_beside, line_style, new_figure, plot_label
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.vocabulary import Vocabulary

SMOOTHING = 0.04  # width of the moving average, as a share of a curve's points
MAX_EXPONENT = 300.0  # perplexities above e^300 are drawn as e^300


class Curve(NamedTuple):
    """Losses of one kind; arrays of equal length."""

    steps: np.ndarray
    minutes: np.ndarray  # training time so far
    losses: np.ndarray  # nats per target token


class Curves(NamedTuple):
    label: str
    train: Curve
    validation: Curve
    sampled: bool  # whether the training loss is estimated by a sampled softmax


def read_curves(run: Run, name: str) -> Curves:
    """Read the curves of a run, which legends call ``name``. Raises UserError if it has no metrics."""
    lines = [line for line in read_json_lines(run.metrics_file) if isinstance(line.get("loss"), (int, float))]
    train, validation = ([line for line in lines if line.get("kind") == kind] for kind in ("train", "validation"))
    if not train:
        raise UserError(f"run {run.name} has no metrics: training writes them, every training.log_every steps")
    minutes, elapsed = {}, 0.0
    for line in train:
        elapsed += line.get("seconds", 0.0) / 60
        minutes[line["step"]] = elapsed

    def curve(points: list[dict[str, Any]]) -> Curve:
        steps = [line["step"] for line in points]
        return Curve(
            np.array(steps, dtype=np.float64),
            np.array([minutes.get(step, elapsed) for step in steps]),
            np.array([line["loss"] for line in points], dtype=np.float64),
        )

    sampled = any(line.get("softmax") == "sampled" for line in train)
    return Curves(f"{name}, {run.config.training.precision}", curve(train), curve(validation), sampled)


def moving_average(values: Sequence[float] | np.ndarray, window: int) -> np.ndarray:
    """Centered mean over ``window`` (odd) values, which shrinks symmetrically toward the ends."""
    values = np.asarray(values, dtype=np.float64)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    reach = np.minimum(np.minimum(index, index[::-1]), window // 2)
    return (sums[index + reach + 1] - sums[index - reach]) / (2 * reach + 1)


def draw_curves(runs: Sequence[Curves], by_time: bool = False) -> Figure:
    """Draw loss and perplexity of several runs: raw (pale), smoothed (strong) and validation (markers)."""
    figure = new_figure(11, 4.6)
    loss_axes, perplexity_axes = figure.subplots(1, 2)
    for index, run in enumerate(runs):
        _draw_run(loss_axes, run, index, lambda losses: losses, by_time)
        _draw_run(perplexity_axes, run, index, lambda losses: np.exp(np.minimum(losses, MAX_EXPONENT)), by_time)
    xlabel = "training time, minutes" if by_time else "training steps"
    loss_axes.set(xlabel=xlabel, ylabel="loss, nats per target token", title="Loss (pale: raw, strong: smoothed)")
    perplexity_axes.set(xlabel=xlabel, ylabel="perplexity, e^loss", yscale="log", title="Perplexity")
    _label_log_axis(perplexity_axes)
    for axes in (loss_axes, perplexity_axes):
        axes.grid(alpha=0.3, which="both")
    loss_axes.legend(loc="upper right")
    return figure


def _draw_run(
    axes: Axes, run: Curves, index: int, transform: Callable[[np.ndarray], np.ndarray], by_time: bool
) -> None:
    """Draw the index-th run; ``transform`` turns losses into the values to draw."""
    train, validation, style = run.train, run.validation, line_style(index, marker=False)
    train_label = "training" + (" (estimated by sampled softmax)" if run.sampled else "")
    smoothed = moving_average(train.losses, max(5, int(len(train.losses) * SMOOTHING)) | 1)
    x = train.minutes if by_time else train.steps
    axes.plot(x, transform(train.losses), color=style["color"], linewidth=0.7, alpha=0.4)
    axes.plot(x, transform(smoothed), linewidth=1.6, label=plot_label(f"{run.label}: {train_label}"), **style)
    if len(validation.losses):
        x = validation.minutes if by_time else validation.steps
        style = line_style(index) | {"linestyle": "-", "linewidth": 1, "markersize": 7, "markeredgecolor": "white"}
        axes.plot(x, transform(validation.losses), label=plot_label(f"{run.label}: validation"), **style)


def _label_log_axis(axes: Axes) -> None:
    """Label a short logarithmic axis at 50, 100, 200, … instead of powers of ten only."""
    low, high = axes.get_ylim()
    if math.log10(max(high, 1)) - math.log10(max(low, 1)) < 4:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


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
    title = f"BLEU by the length of the {source}"
    label_axes(axes, xlabel=f"length of the {source}, tokens", ylabel=score, title=title)
    if len(runs) > 1:
        legend_beside(figure, axes)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
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
        label_axes(axes, title=title, xlabel="training steps")
    if len(runs) > 1:
        legend_beside(figure, axes)
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
        title = f"{name.capitalize()} by rank"
        axes.set(xscale="log", yscale="log")
        label_axes(axes, xlabel="rank", ylabel="relative frequency", title=title)
    legend_beside(figure, axes)
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
        title = f"The {len(codes)} most frequent {name}"
        label_axes(axes, grid="x", xlabel="relative frequency, %", title=title)
        if len(codes):
            axes.legend(loc="lower right")
    return figure


def draw_divergences(
    steps: Sequence[int], replies: Sequence[Mapping[int, float | None]], references: Mapping[int, float | None]
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
    title = "Divergence of the replies from the training corpus"
    ylabel = "Jensen–Shannon divergence, bits"
    label_axes(axes, xlabel="training steps", ylabel=ylabel, title=title, ylim=(0, 1))
    legend_beside(figure, axes)
    return figure
