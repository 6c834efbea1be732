"""The style of all figures, and writing them to files without a display.

The colors are distinguishable with any color vision deficiency; line styles and markers differ as well, so figures
can be printed in grayscale. Source: Okabe & Ito 2008, "Color universal design".
"""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.figure import Figure

from seq2seq_chat.system.files import write_atomically

Format = Literal["png", "svg", "pdf"]
FORMATS: tuple[Format, ...] = ("png", "svg", "pdf")
DPI = 130  # of PNG files

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
LINE_STYLES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*", "<", ">")
HEATMAP_COLORS = "Blues"  # varies in lightness only, so it prints in grayscale
WHITE_TEXT_ABOVE = 0.6  # of a heat map's scale

_STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "seq2seq-chat",  # reproducible files
    "pdf.fonttype": 42,  # keep text selectable
}


def new_figure(width: float, height: float) -> Figure:
    """Create an empty figure in the common style; sizes in inches."""
    mpl.rcParams.update(_STYLE)
    return Figure(figsize=(width, height), layout="constrained")


def line_style(index: int, marker: bool = True) -> dict[str, Any]:
    """Color, line style and marker of the index-th line of a figure, as arguments of ``plot``."""
    style: dict[str, Any] = {"color": COLORS[index % len(COLORS)], "linestyle": LINE_STYLES[index % len(LINE_STYLES)]}
    return style | ({"marker": MARKERS[index % len(MARKERS)], "markersize": 5} if marker else {})


def plot_label(text: str, max_length: int = 60) -> str:
    """Truncate text, and escape dollar signs, between which matplotlib expects mathematics."""
    truncated = text if len(text) <= max_length else text[: max_length - 1] + "…"
    return truncated.replace("$", r"\$")


def render(figure: Figure, file_format: Format) -> bytes:
    """The contents of a figure's file."""
    stream = io.BytesIO()
    metadata: dict[str, Any] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[file_format]
    figure.savefig(stream, format=file_format, dpi=DPI, metadata=metadata)
    return stream.getvalue()


def save(figure: Figure, path: str | Path, file_format: Format = "png") -> None:
    """Write a figure atomically. Raises UserError if it cannot be written."""
    write_atomically(path, render(figure, file_format))


def data_uri(png: bytes) -> str:
    """A PNG as the source of an HTML image."""
    return "data:image/png;base64," + base64.b64encode(png).decode()
