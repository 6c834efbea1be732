"""What the scripts about corpora share: a prepared corpus as a table of an engine, figures, pictures."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import ibis.expr.types as ir

from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.corpus.engine import Engine, open_engine
from seq2seq_chat.corpus.tables import of_splits
from seq2seq_chat.corpus.utterances import prepared_utterances


class Utterances(NamedTuple):
    """The utterances of a prepared corpus, the engine that evaluates expressions over them, a folder for scratch."""

    table: ir.Table
    engine: Engine
    folder: Path

    def rows(self, expression: ir.Table) -> list[dict[str, Any]]:
        """The rows of a small result."""
        return [row for batch in self.engine.rows(expression) for row in batch.to_pylist()]


@contextmanager
def open_utterances(path: str | Path, split: str | None, how: dict[str, Any]) -> Iterator[Utterances]:
    """The utterances at ``path`` (see ``prepared_utterances``), of one split or of all.

    Args:
        how: What ``engine_options`` put on the command line.

    Raises:
        UserError: There is no corpus, or no engine.
    """
    with tempfile.TemporaryDirectory(prefix="seq2seq-chat-") as name:
        folder = Path(name)
        with (
            prepared_utterances(Path(path), folder) as file,
            open_engine(how["engine"], folder, memory=how["memory"], spark_master=how["spark_master"]) as engine,
        ):
            table = engine.table(file)
            yield Utterances(table if split in (None, "all") else of_splits(table, [str(split)]), engine, folder)


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options by which every script about corpora chooses what it reads and how."""
    options = (
        click.option(
            "--split",
            type=click.Choice(["train", "validation", "test", "all"]),
            default="all",
            show_default=True,
            help="Part of the corpus.",
        ),
        click.option("--engine", type=click.Choice(["duckdb", "spark"]), default="duckdb", show_default=True),
        click.option("--spark-master", default="local[*]", show_default=True, metavar="URL"),
        click.option("--memory", default="2GB", show_default=True, metavar="SIZE", help="What the engine may take."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def write_figures(path: str | Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as JSON, or as CSV where the name ends in .csv."""
    with atomic_write(path) as file:
        if Path(path).suffix == ".csv":
            text = io.StringIO()
            writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            file.write(text.getvalue())
        else:
            file.write(json.dumps(list(rows), indent=2) + "\n")


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows in columns: numbers to the right, texts to the left."""
    if not rows:
        click.echo("nothing")
        return
    cells = [list(rows[0])] + [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    text = [isinstance(value, str) for value in rows[0].values()]
    for line in cells:
        parts = (
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, text, strict=True)
        )
        click.echo("  ".join(parts).rstrip())


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
