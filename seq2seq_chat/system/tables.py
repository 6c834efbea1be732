"""Text for the terminal: tables with aligned columns, also for Markdown, single lines, and numbers with nouns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

NO_VALUE = "–"

_CONTROL = re.compile("[\x00-\x08\n-\x1f\x7f-\x9f\u2028\u2029]")  # all but the tab


def one_line(text: str) -> str:
    """The text with spaces for line breaks and other control characters, which would confuse terminals and programs."""
    return _CONTROL.sub(" ", text)


def pluralize(number: int, noun: str) -> str:
    """A number with its noun: "1 line", "1,200 lines"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def format_table(
    rows: Sequence[Sequence[str]], align: str = "l", style: Literal["plain", "ruled", "markdown"] = "plain"
) -> str:
    """Format rows of equal length as lines of aligned columns.

    Args:
        rows: The cells; the first row is the header, if there is one.
        align: ``l`` or ``r`` for each column; the last letter applies to all remaining columns.
        style: ``ruled`` underlines the first row, ``markdown`` makes it the header of a Markdown table.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    align = align.ljust(len(widths), align[-1])
    lines = [
        [cell.rjust(w) if a == "r" else cell.ljust(w) for cell, w, a in zip(row, widths, align, strict=False)]
        for row in rows
    ]
    if style == "markdown":
        lines.insert(1, ["-" * (w - 1) + ":" if a == "r" else "-" * w for w, a in zip(widths, align, strict=False)])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    if style == "ruled":
        lines.insert(1, ["-" * w for w in widths])
    return "\n".join("  ".join(line).rstrip() for line in lines)
