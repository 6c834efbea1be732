#!/usr/bin/env python3
"""Measure the speed and the memory of `prepare` on generated dumps, and on half of them.

python scripts/benchmark_prepare.py --folder /tmp/dumps --reddit-mb 2200 --opensubtitles-mb 550

The results are medians of rounds in turns, in all but the first of which the input is in the page cache. The memory is
the peak of all processes together.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
from contenders import json_option, print_table
from contenders.generated_corpora import SUBREDDITS, generate_opensubtitles, generate_reddit

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.system.files import write_json

COLUMNS = ["corpus", "MB", "s", "MB/s", "peak GB"]


@click.command(help=__doc__)
@click.option("--folder", default="benchmark_prepare", show_default=True, type=click.Path(path_type=Path))
@click.option("--reddit-mb", default=2200.0, show_default=True, help="Size of the dump; 0 for none.")
@click.option("--opensubtitles-mb", default=550.0, show_default=True, help="Size of the tree; 0 for none.")
@click.option("--all-subreddits", is_flag=True, help="Read all comments instead of three subreddits.")
@click.option("--engine", type=click.Choice(["duckdb", "spark"]), default="duckdb", show_default=True)
@click.option("--memory", default="2GB", show_default=True, metavar="SIZE", help="Memory limit of the engine.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Number of measurements.")
@json_option
def main(
    folder: Path,
    reddit_mb: float,
    opensubtitles_mb: float,
    all_subreddits: bool,
    engine: str,
    memory: str,
    rounds: int,
    json_file: Path | None,
) -> None:
    """Print a table of speed and memory. The generated corpora are kept in the folder and reused."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for corpus, size, generate in (
        ("reddit", reddit_mb, generate_reddit),
        ("opensubtitles", opensubtitles_mb, generate_opensubtitles),
    ):
        options, label = ["--engine", engine, "--memory", memory], corpus
        if corpus == "reddit":
            label = "reddit, all subreddits" if all_subreddits else f"reddit, {len(SUBREDDITS)} subreddits"
            options += [] if all_subreddits else [part for name in SUBREDDITS for part in ("--subreddit", name)]
        sources = {folder / f"{corpus}-{megabytes:g}": megabytes for megabytes in (size / 2, size) if megabytes}
        for source, megabytes in sources.items():
            generate(source, megabytes)
        measured: dict[Path, list[tuple[float, int]]] = {source: [] for source in sources}
        for _ in range(rounds):
            for source, results in measured.items():
                results.append(measure(corpus, source, folder / "ours", options))
        for source, results in measured.items():
            seconds, megabytes = median(seconds for seconds, _ in results), size_of(source) / 1e6
            peak = max(memory for _, memory in results) / 1e9
            row = {"corpus": label, "MB": megabytes, "s": f"{seconds:.1f}", "MB/s": f"{megabytes / seconds:.1f}"}
            rows.append(row | {"peak GB": f"{peak:.2f}", "seconds": [seconds for seconds, _ in results]})
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, rows)


def measure(corpus: str, source: Path, output: Path, options: Sequence[str]) -> tuple[float, int]:
    """Run `prepare`; the seconds it takes, and the peak memory of all its processes in bytes.

    Memory counts once two samples in a row have it: a process that Java has just forked shares Java's memory until it
    runs another program, a millisecond later, and would count twice.
    """
    command = [sys.executable, "-m", "seq2seq_chat", "prepare", corpus, str(source), "--output", str(output), *options]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        before = 0
        while not ended.wait(0.25):
            now = resident_bytes(process.pid)
            peak, before = max(peak, min(before, now)), now

    watcher = threading.Thread(target=watch)
    watcher.start()
    status = process.wait()
    seconds = time.perf_counter() - start
    ended.set()
    watcher.join()
    if status:
        raise click.ClickException(f"{' '.join(command)} failed")
    shutil.rmtree(output)
    return seconds, peak


def resident_bytes(process: int) -> int:
    """The memory of a process and its descendants in bytes; each counts its share of shared pages."""
    total = 0
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
            total += next(1024 * int(line.split()[1]) for line in file if line.startswith("Pss:"))
        for task in Path(f"/proc/{process}/task").iterdir():
            total += sum(resident_bytes(int(child)) for child in (task / "children").read_text().split())
    except (OSError, StopIteration):
        pass  # the process has just ended
    return total


def size_of(source: Path) -> int:
    """The bytes of a dump, or of a tree of films."""
    files = [source] if source.is_file() else source.rglob("*.xml")
    return sum(file.stat().st_size for file in files)


if __name__ == "__main__":
    run_command(main)
