"""Where the model looked: attention as a heat map, and laid over the words it read."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from seq2seq_chat.analysis.style import DARK, SHADES, new_figure, plain
from seq2seq_chat.chatbot import Hypothesis, Reply
from seq2seq_chat.errors import UserError


def check_attention(reply: Reply) -> None:
    """Raises UserError where there is no attention to be drawn, and says why."""
    if not reply.hypotheses:
        raise UserError("there is no reply to this utterance, as it has no word that can be read; give another one")
    best = reply.hypotheses[0]
    if not best.words:
        raise UserError("the reply to this utterance is empty, so nothing was attended to; give another one")
    if not best.attention:
        raise UserError('this model has no attention (model.attention is "none")')


def draw_heat_maps(source: Sequence[str], hypotheses: Sequence[Hypothesis]) -> Figure:
    """A heat map for each hypothesis, best first: rows are words of the reply, columns words of the utterance."""
    shown = [hypothesis for hypothesis in hypotheses if hypothesis.words]
    rows = max(len(hypothesis.words) for hypothesis in shown)
    most = _most(shown)
    panel = max(3.5, 1.4 + 0.42 * len(source))
    figure = new_figure(panel * len(shown) + 0.8, 1.6 + 0.3 * rows)
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, hypothesis in zip(panels, shown, strict=True):
        image = axes.imshow(np.array(hypothesis.attention), cmap=SHADES, vmin=0, vmax=most, aspect="auto")
        axes.set_xticks(
            range(len(source)), [plain(word) for word in source], rotation=60, ha="left", rotation_mode="anchor"
        )
        axes.xaxis.tick_top()
        axes.set_yticks(range(len(hypothesis.words)), [plain(word) for word in hypothesis.words])
        axes.set_xlabel("words of the utterance")
        axes.set_ylabel("words of the reply")
        if len(shown) > 1:
            axes.set_title(f"score {hypothesis.score:.2f}")
        axes.spines[:].set_visible(False)
        axes.set_xticks(np.arange(-0.5, len(source)), minor=True)
        axes.set_yticks(np.arange(-0.5, len(hypothesis.words)), minor=True)
        axes.grid(which="minor", color="white", linewidth=1.5)
        axes.tick_params(which="both", length=0)
    figure.colorbar(image, ax=panels[-1], label="attention, shares of each row", shrink=0.8)
    return figure


def draw_overlay(source: Sequence[str], hypothesis: Hypothesis) -> Figure:
    """The utterance once for each word of the reply, its words shaded by the attention they got."""
    figure = new_figure(2 + 0.105 * (sum(len(word) + 2 for word in source)), 0.9 + 0.3 * len(hypothesis.words))
    axes = figure.subplots()
    shades = mpl.colormaps[SHADES]
    most = _most([hypothesis])
    ends = np.cumsum([len(word) + 2 for word in source])  # in characters
    for row, (said, weights) in enumerate(zip(hypothesis.words, hypothesis.attention, strict=True)):
        axes.text(-1.5, row, plain(said), ha="right", va="center", weight="bold", family="monospace", fontsize=9)
        for word, end, weight in zip(source, ends, weights, strict=True):
            width = len(word) + 2
            axes.add_patch(
                Rectangle((end - width + 0.1, row - 0.42), width - 0.2, 0.84, color=shades(weight / most), lw=0)
            )
            color = "white" if weight / most > DARK else "black"
            axes.text(
                end - width / 2, row, plain(word), ha="center", va="center", color=color, family="monospace", fontsize=9
            )
    longest = max(len(word) for word in hypothesis.words)
    axes.set(xlim=(-longest - 4, ends[-1] + 1), ylim=(len(hypothesis.words) - 0.4, -0.6))
    axes.set_title("Saying each word in bold, the model looked at the dark ones")
    axes.axis("off")
    return figure


def _most(hypotheses: Sequence[Hypothesis]) -> float:
    """The largest weight, which is drawn darkest: attention that is spread over a long utterance has pale maps else."""
    return max(weight for hypothesis in hypotheses for row in hypothesis.attention for weight in row)
