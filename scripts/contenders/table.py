"""Figures for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2seq_chat.atomic import atomic_write

FORMATS = {"loss": "{:.4f}", "GB": "{:.2f}", "ours is": "{:.2f} ×", "replies/s": "{:.1f}", "first step s": "{:.1f}"}


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print some columns of all rows as a table in Markdown."""
    cells = [[_text(row.get(column), column) for column in columns] for row in rows]
    widths = [max(len(line[place]) for line in [list(columns), *cells]) for place in range(len(columns))]
    for number, line in enumerate([list(columns), *cells]):
        first, *others = zip(line, widths, strict=True)
        print(f"| {first[0]:<{first[1]}} | " + " | ".join(f"{text:>{width}}" for text, width in others) + " |")
        if number == 0:
            print("| " + "-" * widths[0] + " | " + " | ".join("-" * (width - 1) + ":" for width in widths[1:]) + " |")


def write_json(path: Path, figures: Mapping[str, Any]) -> None:
    """Write figures to a file, whole or not at all."""
    with atomic_write(path, "w") as file:
        file.write(json.dumps(figures, indent=2) + "\n")


def _text(value: Any, column: str) -> str:
    if value is None:
        return ""
    return FORMATS.get(column, "{:,.0f}").format(value) if isinstance(value, (int, float)) else str(value)
