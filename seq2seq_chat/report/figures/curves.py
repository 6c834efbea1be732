"""Learning curves: training and validation loss and perplexity, over steps or time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from seq2seq_chat.report.figures.style import COLORS, LINE_STYLES, MARKERS, new_figure, plot_label
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError

SMOOTHING = 0.04  # width of the moving average, as a share of a curve's points
MAX_EXPONENT = 300.0  # perplexities above e^300 are drawn as e^300


class Curve(NamedTuple):
    """Losses of one kind; arrays of equal length."""

    steps: np.ndarray
    minutes: np.ndarray  # training time so far
    losses: np.ndarray  # nats per target token


class Curves(NamedTuple):
    """The learning curves of a run."""

    label: str
    train: Curve
    validation: Curve
    sampled: bool  # whether the training loss is estimated by a sampled softmax


def read_curves(run: Run, name: str) -> Curves:
    """Read the curves of a run, which legends call ``name``. Raises UserError if it has no metrics yet."""
    lines = [line for line in read_json_lines(run.metrics_file) if isinstance(line.get("loss"), (int, float))]
    train, validation = ([line for line in lines if line.get("kind") == kind] for kind in ("train", "validation"))
    if not train:
        raise UserError(f"run {run.name} has no metrics yet; training writes them every training.log_every steps")
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
    means: np.ndarray = (sums[index + reach + 1] - sums[index - reach]) / (2 * reach + 1)
    return means


def draw_curves(runs: Sequence[Curves], by_time: bool = False) -> Figure:
    """Draw loss and perplexity of several runs: raw (pale), smoothed (strong) and validation (markers)."""
    figure = new_figure(11, 4.6)
    loss_axes, perplexity_axes = figure.subplots(1, 2)
    for index, run in enumerate(runs):
        for axes, transform in ((loss_axes, np.asarray), (perplexity_axes, _perplexities)):
            _draw_run(axes, run, index, transform, by_time)
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
    color = COLORS[index % len(COLORS)]
    train_label = "training" + (" (estimated by sampled softmax)" if run.sampled else "")
    window = max(5, int(len(run.train.losses) * SMOOTHING)) | 1
    x = run.train.minutes if by_time else run.train.steps
    axes.plot(x, transform(run.train.losses), color=color, linewidth=0.7, alpha=0.4)
    axes.plot(
        x,
        transform(moving_average(run.train.losses, window)),
        color=color,
        linestyle=LINE_STYLES[index % len(LINE_STYLES)],
        linewidth=1.6,
        label=plot_label(f"{run.label}: {train_label}"),
    )
    if len(run.validation.losses):
        axes.plot(
            run.validation.minutes if by_time else run.validation.steps,
            transform(run.validation.losses),
            color=color,
            marker=MARKERS[index % len(MARKERS)],
            markeredgecolor="white",
            markersize=7,
            linewidth=1,
            label=plot_label(f"{run.label}: validation"),
        )


def _perplexities(losses: np.ndarray) -> np.ndarray:
    values: np.ndarray = np.exp(np.minimum(losses, MAX_EXPONENT))
    return values


def _label_log_axis(axes: Axes) -> None:
    """Label a short logarithmic axis at 50, 100, 200, … instead of powers of ten only."""
    low, high = axes.get_ylim()
    if math.log10(max(high, 1)) - math.log10(max(low, 1)) < 4:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
