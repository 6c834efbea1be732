"""Tables of benchmark results, and the option --json to write them to a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from seq2seq_chat.system.tables import format_table

json_option = click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="write the results to this file"
)
FORMATS = {
    "loss": "{:.4f}",
    "GB": "{:.2f}",
    "ours is": "{:.2f} ×",
    "replies/s": "{:.1f}",
    "first step s": "{:.1f}",
    "tracing s": "{:.2f}",
    "first call s": "{:.2f}",
}


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print the given columns as a Markdown table."""
    cells = [[_text(row.get(column), column) for column in columns] for row in rows]
    print(format_table([columns, *cells], "lr", "markdown"))


def _text(value: Any, column: str) -> str:
    if value is None:
        return ""
    return FORMATS.get(column, "{:,.0f}").format(value) if isinstance(value, (int, float)) else str(value)
