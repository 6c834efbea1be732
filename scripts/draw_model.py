"""Draw the model: docs/model.png.

python scripts/draw_model.py --output docs/model.png
"""

from __future__ import annotations

import click
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from picture_script import Pictures, picture_options

from seq2seq_chat.analysis.figures.style import COLORS, new_figure
from seq2seq_chat.cli.running import run_command

SOURCE = ("where", "are", "you", "from", "?")
REPLY = ("i", "am", "from", "china", "<eos>")
WEIGHTS = (0.08, 0.10, 0.17, 0.55, 0.10)  # example attention of the third reply word
STEP = 2
BLUE, ORANGE, GREEN = COLORS[:3]
CELLS, WORDS, CONTEXT, HIDDEN, PROJECTED, OUTPUT = 2.0, 0.6, 4.35, 5.4, 6.5, 7.6  # heights of the rows


@click.command(help=__doc__)
@picture_options
def main(pictures: Pictures) -> None:
    """Write the picture."""
    figure = new_figure(11, 6.2)
    axes = figure.add_subplot()
    axes.set(xlim=(-1.1, 13.3), ylim=(0, 8.2))
    axes.axis("off")
    _encoder(axes)
    _decoder(axes)
    _attention(axes)
    pictures.write(figure, "model", main=True)


def _encoder(axes: Axes) -> None:
    for i, word in enumerate(SOURCE):
        axes.text(i, WORDS, word, ha="center", va="center", style="italic")
        _arrow(axes, (i, WORDS + 0.25), (i, CELLS - 0.35))
        _box(axes, i, CELLS, f"$h_{i + 1}$", BLUE)
        if i:
            _arrow(axes, (i - 0.64, CELLS), (i - 0.36, CELLS))
    axes.text(-0.15, CELLS - 0.85, "$x_1$", ha="right", va="center")
    axes.text(1.9, 0.1, "encoder", ha="center", color=BLUE, weight="bold")


def _decoder(axes: Axes) -> None:
    for t, word in enumerate(REPLY):
        x = _place(t)
        previous = REPLY[t - 1] if t else "<go>"
        axes.text(x, WORDS, previous, ha="center", va="center", style="italic")
        _arrow(axes, (x, WORDS + 0.25), (x, CELLS - 0.35))
        _box(axes, x, CELLS, f"$d_{t + 1}$", ORANGE)
        _arrow(axes, (x, CELLS + 0.35), (x, HIDDEN - 0.35))
        _box(axes, x, HIDDEN, rf"$\tilde{{h}}_{t + 1}$", ORANGE)
        _arrow(axes, (x, HIDDEN + 0.35), (x, PROJECTED - 0.3))
        axes.text(x, PROJECTED, f"$p_{t + 1}$", ha="center", va="center")
        _arrow(axes, (x, PROJECTED + 0.25), (x, OUTPUT - 0.25))
        axes.text(x, OUTPUT, word, ha="center", va="center", style="italic", weight="bold")
        if t:
            _arrow(axes, (x - 1.04, CELLS), (x - 0.36, CELLS))
            # input feeding: h̃ of the step before goes into the cell
            _arrow(axes, (x - 1.05, HIDDEN - 0.25), (x - 0.36, CELLS + 0.2), color="0.45", linestyle="--")
    _arrow(axes, (4.36, CELLS), (_place(0) - 0.36, CELLS))
    axes.text((4.36 + _place(0) - 0.36) / 2, CELLS + 0.1, "thought\nvector", ha="center", va="bottom", fontsize=9)
    axes.text(_place(2), 0.1, "decoder", ha="center", color=ORANGE, weight="bold")
    labels = ((OUTPUT, "softmax"), (PROJECTED, "projection"), (HIDDEN, "attentional\nstate"), (CELLS, "cell"))
    for height, label in labels:
        axes.text(_place(4) + 0.6, height, label, va="center", fontsize=9, color="0.35")


def _attention(axes: Axes) -> None:
    x = _place(STEP) - 0.46
    _box(axes, x, CONTEXT, f"$c_{STEP + 1}$", GREEN)
    for i, weight in enumerate(WEIGHTS):
        axes.plot((i, x - 0.36), (CELLS + 0.36, CONTEXT), color=GREEN, linewidth=0.6 + 8 * weight, alpha=0.75)
        axes.text(i + 0.06, CELLS - 0.62, f"$a_{i + 1}$ = {weight:.2f}", va="center", fontsize=8, color=GREEN)
    _arrow(axes, (x + 0.1, CONTEXT + 0.33), (x + 0.3, HIDDEN - 0.35), color=GREEN)
    axes.text(2.2, CONTEXT + 0.5, "attention of one step", ha="center", color=GREEN, weight="bold")


def _place(t: int) -> float:
    return 5.9 + 1.4 * t


def _box(axes: Axes, x: float, y: float, text: str, color: str) -> None:
    corner, size = (x - 0.32, y - 0.3), (0.64, 0.6)
    axes.add_patch(FancyBboxPatch(corner, *size, "round,pad=0.02", edgecolor=color, facecolor="white", zorder=3))
    axes.text(x, y, text, ha="center", va="center", zorder=4)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], **style: str) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "0.2", "shrinkA": 0, "shrinkB": 0} | style)


if __name__ == "__main__":
    run_command(main)
