#!/usr/bin/env python3
"""Compare the engines of `prepare`, DuckDB and Apache Spark, on a generated Reddit dump larger than their memory.

python scripts/benchmark_engines.py --folder /tmp/dumps --reddit-mb 5000 --memory 1GB --rounds 1

All comments are read, of all subreddits. The engines take turns, with the dump in the page cache as far as it fits; the
times are medians, the memory is the highest of all processes together. The files of both must be equal byte for byte.
Spark needs Java and `pip install -c constraints.txt -e '.[spark]'`.
"""

from __future__ import annotations

import filecmp
from pathlib import Path
from statistics import median
from typing import Any

import click
from contenders.generated_corpora import generate_reddit
from contenders.prepare_command import files_of, size_of, time_prepare, warm_cache
from contenders.table import json_option, print_table

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.system.files import write_json

ENGINES = ("duckdb", "spark")
COLUMNS = ["engine", "MB", "memory", "s", "MB/s", "peak GB"]


@click.command(help=__doc__)
@click.option("--folder", default="benchmark_prepare", show_default=True, type=click.Path(path_type=Path))
@click.option("--reddit-mb", default=5000.0, show_default=True, help="size of the dump")
@click.option("--memory", default="1GB", show_default=True, help="limit of the engines")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="number of measurements")
@json_option
def main(folder: Path, reddit_mb: float, memory: str, rounds: int, json_file: Path | None) -> None:
    """Print a row for each engine. The dump is kept in the folder and reused."""
    folder.mkdir(parents=True, exist_ok=True)
    dump = folder / f"reddit-{reddit_mb:g}"
    generate_reddit(dump, reddit_mb)
    runs: dict[str, list[dict[str, Any]]] = {engine: [] for engine in ENGINES}
    for _ in range(rounds):
        for engine, measured in runs.items():
            warm_cache(dump)
            options = ["--engine", engine, "--memory", memory]
            measured.append(time_prepare("reddit", dump, folder / engine, options))
    ensure_equal(*(folder / engine for engine in ENGINES))
    megabytes = size_of(dump) / 1e6
    rows = []
    for engine, measured in runs.items():
        seconds = median(run["seconds"] for run in measured)
        peak = f"{max(run['peak_gb'] for run in measured):.2f}"
        rows.append(dict(zip(COLUMNS, (engine, megabytes, memory, seconds, megabytes / seconds, peak), strict=True)))
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, rows)


def ensure_equal(first: Path, second: Path) -> None:
    """Raise ClickException if two folders have different files."""
    files = [sorted(path.relative_to(folder) for path in files_of(folder)) for folder in (first, second)]
    different = [str(name) for name in files[0] if not filecmp.cmp(first / name, second / name, shallow=False)]
    if files[0] != files[1] or different:
        raise click.ClickException(f"{first} and {second} have different files: {', '.join(different)}")


if __name__ == "__main__":
    run_command(main)
