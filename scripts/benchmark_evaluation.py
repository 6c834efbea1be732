#!/usr/bin/env python3
"""Compare the speed of evaluation in batches and one sample at a time: losses, replies and writing them.

python scripts/benchmark_evaluation.py latest --data data/dailydialog/train.txt

Graphs are traced before timing starts. Run nothing else at the same time.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import click
from contenders.table import json_option
from picture_script import results_option, snapshot_option

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.versions import load_tensorflow


@click.command(help=__doc__)
@click.argument("run")
@click.option("--data", metavar="FILE", help="Corpus file.  [default: the run's data.test, else data.validation]")
@click.option(
    "--samples", default=10_000, show_default=True, type=click.IntRange(1), help="Samples to evaluate in batches."
)
@click.option(
    "--single", default=200, show_default=True, type=click.IntRange(1), help="Samples to evaluate one by one."
)
@snapshot_option
@results_option
@json_option
def main(
    run: str, data: str | None, samples: int, single: int, snapshot: str | None, results: str, json_file: Path | None
) -> None:
    """Print seconds and samples per second for both, and peak memory."""
    trained_run = find_run(run, results)
    load_tensorflow()
    from seq2seq_chat.analysis import predictions
    from seq2seq_chat.analysis.evaluate import evaluation_corpus
    from seq2seq_chat.analysis.loaded_run import LoadedRun

    loaded = LoadedRun(trained_run, snapshot)
    block, rows = predictions.BLOCK, predictions.MAX_ROWS
    speeds = []
    for label, total, batch in (("batches", samples, block), ("one by one", single, 1)):
        predictions.BLOCK, predictions.MAX_ROWS = batch, min(rows, batch)
        seconds = []
        for count in (min(total, batch), total):  # the first traces the graphs
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                done = predictions.predict(loaded, evaluation_corpus(trained_run, data), Path(folder), limit=count)
                seconds.append(time.perf_counter() - start)
        speeds.append(done.samples / seconds[-1])
        click.echo(f"{label:<12}{done.samples:>8,} samples {seconds[-1]:>8.1f} s {speeds[-1]:>8.1f} samples/s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    click.echo(f"batches are {speeds[0] / speeds[1]:.1f} times as fast")
    click.echo(f"peak memory: {peak:.2f} GB")
    if json_file:
        write_json(json_file, {"samples/s": speeds[0], "one by one, samples/s": speeds[1], "peak GB": peak})


if __name__ == "__main__":
    run_command(main)
