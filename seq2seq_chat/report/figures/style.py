"""The style of all figures, and writing them to files without a display.

The colors are distinguishable with any color vision deficiency; line styles and markers differ as well, so figures
can be printed in grayscale. Source: Okabe & Ito 2008, "Color universal design".
"""

from __future__ import annotations

import functools
import io
import logging
import re
import warnings
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager as font_manager

from seq2seq_chat.system.files import write_atomically

Format = Literal["png", "svg", "pdf"]
DPI = 130  # of PNG files

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
LINE_STYLES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*", "<", ">")
HEATMAP_COLORS = "Blues"  # varies in lightness only, so it prints in grayscale
WHITE_TEXT_ABOVE = 0.6  # of a heat map's scale

_SCRIPTS = ("CJK SC", "CJK JP", "Arabic", "Hebrew", "Devanagari", "Bengali", "Tamil", "Telugu", "Thai")
_FALLBACK_FONTS = ("DejaVu Sans", *(f"Noto Sans {script}" for script in _SCRIPTS), "WenQuanYi Zen Hei")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")  # which SVG cannot represent
_MISSING_GLYPH = re.compile(r"Glyph (\d+) .* missing from font")
_characters_without_font: set[str] = set()

logger = logging.getLogger(__name__)

_STYLE: dict[str, Any] = {
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


@functools.cache
def installed_fonts(first: str) -> list[str]:
    """A font family, and the installed ones for what it cannot draw."""
    names = set(font_manager.get_font_names())
    return [first, *(name for name in _FALLBACK_FONTS if name in names and name != first)]


def new_figure(width: float, height: float) -> Figure:
    """Create an empty figure in the common style; sizes in inches."""
    mpl.rcParams.update(_STYLE | {"font.family": installed_fonts("DejaVu Sans")})
    return Figure(figsize=(width, height), layout="constrained")


def label_axes(axes: Axes, *, grid: Literal["both", "x", "y"] = "both", **settings: Any) -> None:
    """Set titles, labels, scales and limits as ``Axes.set`` does, and draw a grid."""
    axes.set(**settings)
    axes.grid(alpha=0.3, axis=grid)
    if settings.get("xlabel", "").endswith(("step", "steps", "tokens")) and axes.get_xscale() == "linear":
        axes.locator_params(axis="x", integer=True)


def legend_beside(figure: Figure, axes: Axes, **settings: Any) -> None:
    """Draw one legend for all axes of a figure, of what has a label in one of them, at their right."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", **settings)


def line_style(index: int, marker: bool = True) -> dict[str, Any]:
    """Color, line style and marker of the index-th line of a figure, as arguments of ``plot``."""
    color, line = index % len(COLORS), (index + index // len(COLORS)) % len(LINE_STYLES)  # each pair only once
    style: dict[str, Any] = {"color": COLORS[color], "linestyle": LINE_STYLES[line]}
    return style | ({"marker": MARKERS[index % len(MARKERS)], "markersize": 5} if marker else {})


def plot_label(text: str, max_length: int = 60) -> str:
    """Truncate text, replace control characters, and escape dollar signs, which matplotlib takes for mathematics."""
    truncated = text if len(text) <= max_length else text[: max_length - 1] + "…"
    return _CONTROL.sub(" ", truncated).replace("$", r"\$")


def render(figure: Figure, file_format: Format) -> bytes:
    """The contents of a figure's file. Warns of the first character that no installed font can draw."""
    stream = io.BytesIO()
    metadata: dict[str, Any] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[file_format]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.savefig(stream, format=file_format, dpi=DPI, metadata=metadata)
    missing = []
    for warning in caught:
        if match := _MISSING_GLYPH.match(str(warning.message)):
            missing.append(chr(int(match[1])))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if missing:
        _warn_of_missing_font(missing[0])
    return stream.getvalue()


def _warn_of_missing_font(character: str) -> None:
    """Warn once in a process."""
    if not _characters_without_font:
        logger.warning(
            "no installed font has %s, so figures show boxes for some characters; install one, for example from the "
            "packages fonts-noto-core and fonts-noto-cjk",
            character,
        )
    _characters_without_font.add(character)


def save(figure: Figure, path: str | Path, file_format: Format = "png") -> None:
    """Write a figure atomically. Raises UserError if it cannot be written."""
    write_atomically(path, render(figure, file_format))
