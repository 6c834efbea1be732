"""Gates word by word, gradient norms by time step, and norms of weights and gradients by variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from seq2seq_chat.analysis.figures.style import HEATMAP_COLORS, line_style, new_figure, plot_label
from seq2seq_chat.analysis.model_view.model_internals import GateActivations, VariableNorms

MAX_UNITS = 40  # drawn per gate
OPEN = 0.9  # a gate above this counts as open, and below 1 - OPEN as closed


def draw_gates(gates: GateActivations, part: str) -> Figure:
    """Draw the mean of each gate at every word and, below, the units that vary most.

    Args:
        part: "encoder" or "decoder".
    """
    figure = new_figure(max(7.0, 3 + 0.8 * len(gates.words)), 3 + 2 * len(gates.values))
    top, *panels = figure.subplots(1 + len(gates.values), 1, height_ratios=[2, *[1.6] * len(gates.values)], sharex=True)
    positions = np.arange(len(gates.words))
    for index, (gate, values) in enumerate(gates.values.items()):
        top.plot(positions, values.mean(axis=1), label=f"{gate} ({gates.meanings[gate]})", **line_style(index))
    top.set(ylim=(0, 1), ylabel="mean of all units", title=f"{part.capitalize()}: gates at each word")
    top.grid(alpha=0.3)
    top.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.04), fontsize=8)
    for axes, (gate, values) in zip(panels, gates.values.items(), strict=True):
        image = _draw_units(axes, gate, values)
    labels = [plot_label(word) for word in gates.words]
    panels[-1].set_xticks(positions, labels, rotation=45, ha="right", rotation_mode="anchor")
    figure.colorbar(image, ax=panels, label="0: closed, 1: open", shrink=0.7)
    return figure


def _draw_units(axes: Axes, gate: str, values: np.ndarray) -> AxesImage:
    """Draw the most varying units of a gate, ordered by the word at which they peak."""
    varying = np.argsort(-values.std(axis=0), kind="stable")[:MAX_UNITS]
    varying = varying[np.argsort(np.argmax(values[:, varying], axis=0), kind="stable")]
    image = axes.imshow(
        values[:, varying].T, cmap=HEATMAP_COLORS, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    opened, closed = float(np.mean(values > OPEN)), float(np.mean(values < 1 - OPEN))
    axes.set(
        ylabel=f"{len(varying)} units",
        yticks=[],
        title=f"{gate}: {opened:.0%} open (> {OPEN}), {closed:.0%} closed (< {1 - OPEN:.1f}), over all units and words",
    )
    axes.title.set_fontsize(9)
    axes.spines[:].set_visible(False)
    return image


def draw_gradients_by_step(norms: Mapping[str, Mapping[str, Sequence[float]]], legend_title: str = "") -> Figure:
    """Draw gradient norms at every encoder and decoder step.

    Args:
        norms: by label of the line (a snapshot, a loss) and then by "encoder", if there is one, and "decoder": norms by
            step.
    """
    figure, parts = new_figure(11, 4.2), list(next(iter(norms.values())))
    for axes, part in zip(figure.subplots(1, len(parts), sharey=True, squeeze=False)[0], parts, strict=True):
        for index, (label, by_step) in enumerate(norms.items()):
            values = np.array(by_step[part])
            steps = np.arange(1, len(values) + 1)
            axes.plot(
                steps[values > 0], values[values > 0], label=plot_label(label), **line_style(index) | {"markersize": 3}
            )
        axes.set(
            yscale="log",
            xlabel=f"{part} time step",
            ylabel="gradient norm at the cell's gates",
            title=f"{part.capitalize()}: gradient norm by time step",
        )
        axes.grid(alpha=0.3)
    axes.legend(title=legend_title or None)
    return figure


def draw_gradients_by_distance(norms: Mapping[str, np.ndarray], axes: Axes) -> None:
    """Draw the norm of the gradient of a token's loss with respect to earlier inputs, relative to that of the last one.

    Args:
        norms: by label of the line (a snapshot, an architecture): norms by distance.
        axes: to draw on.
    """
    for index, (label, values) in enumerate(norms.items()):
        style = line_style(index, marker=False)
        axes.plot(np.arange(len(values)), values / values[0], label=plot_label(label), **style)
    axes.set(yscale="log", xlabel="distance, tokens", ylabel="gradient norm, relative to that of the last token")
    axes.grid(alpha=0.3)
    axes.legend()


def draw_variables(variables: Sequence[VariableNorms]) -> Figure:
    """Draw the root mean square of each variable, and the ratio of gradient norm to weight norm."""
    figure = new_figure(11, 1.6 + 0.28 * len(variables))
    left, right = figure.subplots(1, 2, sharey=True)
    positions = np.arange(len(variables))
    left.barh(positions, [v.rms for v in variables], color=line_style(0)["color"])
    left.set_yticks(positions, [plot_label(v.name) for v in variables])
    left.invert_yaxis()
    left.set(xlabel="root mean square of the entries", title="Weights")
    ratios = [v.gradient_norm / v.norm if v.norm else 0.0 for v in variables]
    right.barh(positions, ratios, color=line_style(1)["color"], hatch="//")
    right.set(xlabel="gradient norm / weight norm", title="Gradients relative to weights")
    if any(v.gradient_norm for v in variables):
        right.set_xscale("log")
    for axes in (left, right):
        axes.grid(alpha=0.3, axis="x")
    return figure
