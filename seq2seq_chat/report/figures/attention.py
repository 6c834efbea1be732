"""Attention as a heat map, and as shading of the utterance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from seq2seq_chat.chat.replies import Hypothesis, Reply
from seq2seq_chat.report.figures.style import (
    HEATMAP_COLORS,
    WHITE_TEXT_ABOVE,
    installed_fonts,
    new_figure,
    plot_label,
)
from seq2seq_chat.system.errors import UserError

NO_ATTENTION = 'this model has no attention (model.attention is "none")'


def ensure_attention(reply: Reply) -> None:
    """Raise UserError if a reply has no attention to draw."""
    if not reply.hypotheses:
        raise UserError("the utterance has no words, so there is no reply; try another one")
    best = reply.hypotheses[0]
    if not best.words:
        raise UserError("the reply is empty, so there is no attention to draw; try another utterance")
    if not best.attention:
        raise UserError(NO_ATTENTION)


def draw_heat_maps(source: Sequence[str], hypotheses: Sequence[Hypothesis]) -> Figure:
    """Draw a heat map for each hypothesis, best first; rows are its tokens, columns those of the source."""
    shown = [hypothesis for hypothesis in hypotheses if hypothesis.words]
    rows = max(len(hypothesis.words) for hypothesis in shown)
    vmax = _max_weight(shown)
    panel_width = max(3.5, 1.4 + 0.42 * len(source))
    figure = new_figure(panel_width * len(shown) + 0.8, 1.6 + 0.3 * rows)
    columns = [_token_label(token) for token in source]
    style: dict[str, Any] = {"rotation": 0} if max(map(len, columns)) == 1 else {"rotation": 60, "ha": "left"}
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, hypothesis in zip(panels, shown, strict=True):
        image = axes.imshow(np.array(hypothesis.attention), cmap=HEATMAP_COLORS, vmin=0, vmax=vmax, aspect="auto")
        axes.set_xticks(range(len(source)), columns, rotation_mode="anchor", **style)
        axes.xaxis.tick_top()
        axes.set_yticks(range(len(hypothesis.words)), [_token_label(token) for token in hypothesis.words])
        axes.set_xlabel("tokens of the source")
        axes.set_ylabel("tokens of the output")
        if len(shown) > 1:
            axes.set_title(f"log-probability {hypothesis.score:.2f} nats")
        axes.spines[:].set_visible(False)
        axes.set_xticks(np.arange(-0.5, len(source)), minor=True)
        axes.set_yticks(np.arange(-0.5, len(hypothesis.words)), minor=True)
        axes.grid(which="minor", color="white", linewidth=1.5)
        axes.tick_params(which="both", length=0)
    figure.colorbar(image, ax=panels[-1], label="attention weight; each row sums to 1", shrink=0.8)
    return figure


def draw_overlay(source: Sequence[str], hypothesis: Hypothesis) -> Figure:
    """Draw the source once for each token of the output, shaded by attention."""
    labels = [_token_label(token) for token in source]
    figure = new_figure(2 + 0.105 * (sum(len(label) + 2 for label in labels)), 0.9 + 0.3 * len(hypothesis.words))
    axes = figure.subplots()
    colors = mpl.colormaps[HEATMAP_COLORS]
    text_style: dict[str, Any] = {"va": "center", "family": installed_fonts("DejaVu Sans Mono"), "fontsize": 9}
    vmax = _max_weight([hypothesis])
    ends = np.cumsum([len(label) + 2 for label in labels])  # in characters
    for row, (reply_word, weights) in enumerate(zip(hypothesis.words, hypothesis.attention, strict=True)):
        axes.text(-1.5, row, _token_label(reply_word), ha="right", weight="bold", **text_style)
        for label, end, weight in zip(labels, ends, weights, strict=True):
            width, shade = len(label) + 2, weight / vmax
            axes.add_patch(Rectangle((end - width + 0.1, row - 0.42), width - 0.2, 0.84, color=colors(shade), lw=0))
            color = "white" if shade > WHITE_TEXT_ABOVE else "black"
            axes.text(end - width / 2, row, label, ha="center", color=color, **text_style)
    longest = max(len(_token_label(word)) for word in hypothesis.words)
    axes.set(xlim=(-longest - 4, ends[-1] + 1), ylim=(len(hypothesis.words) - 0.4, -0.6))
    axes.set_title("Attention over the source for each token of the output (bold); darker is stronger")
    axes.axis("off")
    return figure


def _token_label(token: str) -> str:
    return "␣" if token == "<space>" else plot_label(token)


def _max_weight(hypotheses: Sequence[Hypothesis]) -> float:
    """The top of the color scale; on a scale up to 1, attention over a long utterance would be pale."""
    return max(weight for hypothesis in hypotheses for row in hypothesis.attention for weight in row)
