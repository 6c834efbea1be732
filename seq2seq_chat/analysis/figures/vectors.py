"""Scatter plots of vectors: PCA and t-SNE side by side."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from seq2seq_chat.analysis.figures.style import COLORS, MARKERS, new_figure, plot_label
from seq2seq_chat.analysis.model_view.vectors import Vectors, principal_components, start_tsne
from seq2seq_chat.system.errors import UserError

MAX_TRIES = 12  # candidates per label to place


def draw_projections(
    vectors: Vectors,
    title: str,
    clusters: np.ndarray | None = None,
    max_labels: int = 60,
    neighborhoods: Future[np.ndarray] | None = None,
) -> Figure:
    """Draw vectors by PCA, and normalized vectors by t-SNE.

    Args:
        clusters: cluster index of each point, shown by color and marker: [n].
        max_labels: labels to draw, as far as they do not overlap.
        neighborhoods: of :func:`start_tsne`, if it was started before.

    Raises:
        UserError: There are fewer than two dimensions.
    """
    neighborhoods = neighborhoods or start_tsne(vectors)
    points, shares = principal_components(vectors.values)
    if points.shape[1] < 2:
        raise UserError("there are too few points to draw")
    figure = new_figure(15, 7)
    pca_axes, tsne_axes = figure.subplots(1, 2)
    _scatter(pca_axes, points, vectors.labels, clusters, max_labels)
    pca_axes.set(
        title=f"{title}: PCA",
        xlabel=f"first component, {shares[0]:.0%} of the variance",
        ylabel=f"second component, {shares[1]:.0%}",
    )
    try:
        projected = neighborhoods.result()
    except UserError as error:
        tsne_axes.text(0.5, 0.5, str(error), ha="center", wrap=True)
        tsne_axes.axis("off")
        return figure
    _scatter(tsne_axes, projected, vectors.labels, clusters, max_labels)
    tsne_axes.set(title=f"{title}: t-SNE (only neighborhoods are meaningful)", xticks=[], yticks=[])
    return figure


def _scatter(
    axes: Axes, points: np.ndarray, labels: Sequence[str], clusters: np.ndarray | None, max_labels: int
) -> None:
    groups = np.zeros(len(points), np.int64) if clusters is None else clusters
    for number in np.unique(groups):
        color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
        x, y = points[groups == number].T
        axes.scatter(x, y, s=14, alpha=0.6, linewidths=0, color=color, marker=marker)
    axes.margins(0.06)
    _label_points(axes, points, labels, max_labels)


def _label_points(axes: Axes, points: np.ndarray, labels: Sequence[str], max_labels: int) -> None:
    """Label the first points whose labels overlap neither another label nor the right edge."""
    figure: Any = axes.figure
    figure.draw_without_rendering()  # text has no size before
    renderer = figure.canvas.get_renderer() if hasattr(figure.canvas, "get_renderer") else None
    halo = [withStroke(linewidth=2.5, foreground="white")]
    frame = axes.get_window_extent(renderer)
    placed: list[Any] = []
    for index in range(min(len(labels), MAX_TRIES * max_labels)):
        if len(placed) == max_labels:
            break
        text = axes.annotate(
            plot_label(labels[index], 32),
            points[index],
            xytext=(3, 2),
            textcoords="offset points",
            fontsize=7.5,
            path_effects=halo,
        )
        box = text.get_window_extent(renderer).padded(1)
        if box.x1 > frame.x1 or any(box.overlaps(other) for other in placed):
            text.remove()
        else:
            placed.append(box)
