"""How all pictures look: colours that the colour-blind can tell apart, and that are told apart in grey by their lines.

Nothing here needs a display. Colours: Okabe & Ito 2008, "Color universal design".
"""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.figure import Figure

from seq2seq_chat.atomic import atomic_write

Format = Literal["png", "svg", "pdf"]
FORMATS: tuple[Format, ...] = ("png", "svg", "pdf")

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*", "<", ">")
SHADES = "Blues"  # of heat maps: lightness alone says how much, so it prints in grey
DARK = 0.6  # share of a heat map's scale above which its text is white

_STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "seq2seq-chat",  # the same picture is the same file
    "pdf.fonttype": 42,  # text stays text
}


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches; what is drawn on it takes over the common look."""
    mpl.rcParams.update(_STYLE)
    return Figure(figsize=(width, height), layout="constrained")


def look(number: int, marker: bool = True) -> dict[str, Any]:
    """Colour, line and marker of the number-th line of a picture."""
    style: dict[str, Any] = {"color": COLORS[number % len(COLORS)], "linestyle": LINES[number % len(LINES)]}
    return style | ({"marker": MARKERS[number % len(MARKERS)], "markersize": 5} if marker else {})


def plain(text: str, longest: int = 60) -> str:
    """Text that matplotlib takes as it is, cut where it is too long for a label."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return cut.replace("$", r"\$")


def render(figure: Figure, form: Format, dpi: int = 130) -> bytes:
    """A figure as the bytes of a file."""
    stream = io.BytesIO()
    metadata: dict[str, Any] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[form]
    figure.savefig(stream, format=form, dpi=dpi, metadata=metadata)
    return stream.getvalue()


def save(figure: Figure, path: Path, form: Format) -> Path:
    """Write a picture whole. Raises UserError where it cannot be written."""
    picture = render(figure, form)
    with atomic_write(path, "wb") as file:
        file.write(picture)
    return path


def data_uri(picture: bytes) -> str:
    """A PNG for the source of an HTML image."""
    return "data:image/png;base64," + base64.b64encode(picture).decode()
