"""Learning curves: loss and perplexity while a run was trained, as measured and smoothed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from seq2seq_chat.analysis.style import COLORS, LINES, MARKERS, new_figure, plain
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run
from seq2seq_chat.training.metrics import read_json_lines

SMOOTHED_OVER = 0.04  # of the points of a curve
MOST_EXPONENT = 300.0  # a perplexity above e^300 is drawn as that


class Curve(NamedTuple):
    """Losses of one kind: arrays of equal length."""

    steps: np.ndarray
    minutes: np.ndarray  # of training behind each of them
    losses: np.ndarray  # nats per target token


class Curves(NamedTuple):
    """The learning curves of a run."""

    label: str
    train: Curve
    validation: Curve
    sampled: bool  # the training's loss is an estimate, by a sampled softmax


def read_curves(run: Run) -> Curves:
    """The curves of a run. Raises UserError where there is nothing to draw yet."""
    lines = [line for line in read_json_lines(run.metrics_file) if isinstance(line.get("loss"), (int, float))]
    kinds = {kind: [line for line in lines if line.get("kind") == kind] for kind in ("train", "validation")}
    if not kinds["train"]:
        raise UserError(f"run {run.name} has no metrics to draw yet; they come every training.log_every steps")
    minutes, elapsed = {}, 0.0
    for line in kinds["train"]:
        elapsed += line.get("seconds", 0.0) / 60
        minutes[line["step"]] = elapsed

    def curve(kind: str) -> Curve:
        steps = [line["step"] for line in kinds[kind]]
        return Curve(
            np.array(steps, dtype=np.float64),
            np.array([minutes.get(step, elapsed) for step in steps]),
            np.array([line["loss"] for line in kinds[kind]], dtype=np.float64),
        )

    sampled = any(line.get("softmax") == "sampled" for line in kinds["train"])
    label = f"{run.config.name}, {run.config.training.precision}"
    return Curves(label, curve("train"), curve("validation"), sampled)


def smoothed(values: Sequence[float] | np.ndarray, window: int) -> np.ndarray:
    """The mean over ``window`` (odd) neighbours, which does not lag behind; near the ends over fewer, on both sides."""
    values = np.asarray(values, dtype=np.float64)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    place = np.arange(len(values))
    reach = np.minimum(np.minimum(place, place[::-1]), window // 2)
    means: np.ndarray = (sums[place + reach + 1] - sums[place - reach]) / (2 * reach + 1)
    return means


def draw_curves(runs: Sequence[Curves], by_time: bool = False) -> Figure:
    """Loss and perplexity of several runs: as measured (pale), smoothed (strong) and in validation (markers)."""
    figure = new_figure(11, 4.6)
    loss_axes, perplexity_axes = figure.subplots(1, 2)
    for number, run in enumerate(runs):
        color = COLORS[number % len(COLORS)]
        train = "training" + (" (sampled softmax: an estimate)" if run.sampled else "")
        window = max(5, int(len(run.train.losses) * SMOOTHED_OVER)) | 1
        for axes, of in ((loss_axes, lambda losses: losses), (perplexity_axes, _perplexities)):
            where = run.train.minutes if by_time else run.train.steps
            axes.plot(where, of(run.train.losses), color=color, linewidth=0.7, alpha=0.4)
            axes.plot(
                where,
                of(smoothed(run.train.losses, window)),
                color=color,
                linestyle=LINES[number % len(LINES)],
                linewidth=1.6,
                label=plain(f"{run.label}: {train}"),
            )
            if len(run.validation.losses):
                where = run.validation.minutes if by_time else run.validation.steps
                axes.plot(
                    where,
                    of(run.validation.losses),
                    color=color,
                    marker=MARKERS[number % len(MARKERS)],
                    markeredgecolor="white",
                    markersize=7,
                    linewidth=1,
                    label=plain(f"{run.label}: validation"),
                )
    below = "minutes of training" if by_time else "training steps"
    loss_axes.set(xlabel=below, ylabel="loss, nats per target token", title="Loss: pale as measured, strong smoothed")
    perplexity_axes.set(xlabel=below, ylabel="perplexity, e^loss", yscale="log", title="Perplexity")
    _plain_numbers(perplexity_axes)
    for axes in (loss_axes, perplexity_axes):
        axes.grid(alpha=0.3, which="both")
    loss_axes.legend(loc="upper right")
    return figure


def _perplexities(losses: np.ndarray) -> np.ndarray:
    values: np.ndarray = np.exp(np.minimum(losses, MOST_EXPONENT))
    return values


def _plain_numbers(axes: Any) -> None:
    """50, 100, 200 on a logarithmic axis, and not powers of ten only."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axes.get_ylim()
    if math.log10(max(high, 1)) - math.log10(max(low, 1)) < 4:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
