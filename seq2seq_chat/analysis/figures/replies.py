"""The table of replies as a figure, for talks and papers."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from matplotlib.figure import Figure

from seq2seq_chat.analysis.figures.style import new_figure, plot_label
from seq2seq_chat.analysis.replies import ReplyColumn

WRAP_WIDTH = 32  # characters


def draw_replies(questions: Sequence[str], columns: Sequence[ReplyColumn]) -> Figure:
    """Draw a row per question and a column per run or transcript."""
    cells = [
        [question, *(column.replies[n] or "(empty)" for column in columns)] for n, question in enumerate(questions)
    ]
    wrapped = [[fill(plot_label(cell, 120), WRAP_WIDTH) for cell in row] for row in cells]
    lines = [max(cell.count("\n") + 1 for cell in row) for row in wrapped]
    figure = new_figure(2.3 * (len(columns) + 1), 0.5 + 0.17 * sum(lines) + 0.1 * len(lines))
    axes = figure.subplots()
    axes.axis("off")
    header = ["utterance", *(plot_label(column.label, 30) for column in columns)]
    table = axes.table(wrapped, colLabels=header, loc="center", cellLoc="left")
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    line_height = 1 / (sum(lines) + 0.6 * len(lines) + 1.6)
    for (row, column), cell in table.get_celld().items():
        cell.set_height(line_height * (1.6 if row == 0 else lines[row - 1] + 0.6))
        cell.set_edgecolor("0.8")
        if row == 0 or column == 0:
            cell.get_text().set_fontweight("bold")
        if row == 0:
            cell.set_facecolor("0.93")
    return figure
