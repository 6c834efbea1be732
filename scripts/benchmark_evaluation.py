#!/usr/bin/env python3
"""Time evaluating many samples together against one by one: losses, greedy replies and the predictions file.

python scripts/benchmark_evaluation.py latest --data data/dailydialog/train.txt

Graphs are built before the clock starts. Run nothing else meanwhile.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from typing import Optional

import click
from picture_script import results_option, snapshot_option

from seq2seq_chat.environment import load_tensorflow
from seq2seq_chat.runs import find_run


@click.command(help=__doc__)
@click.argument("run")
@click.option("--data", metavar="FILE", help="Corpus file.  [default: the run's data.test, else data.validation]")
@click.option("--samples", default=10_000, show_default=True, type=click.IntRange(1), help="Evaluated together.")
@click.option("--single", default=200, show_default=True, type=click.IntRange(1), help="Evaluated one by one.")
@snapshot_option
@results_option
def main(run: str, data: Optional[str], samples: int, single: int, snapshot: Optional[str], results: str) -> None:
    """Print seconds and samples a second of both ways, and the peak of memory."""
    found = find_run(run, results)
    load_tensorflow()
    from seq2seq_chat.analysis import predictions
    from seq2seq_chat.analysis.evaluate import test_corpus
    from seq2seq_chat.analysis.subject import Subject

    subject = Subject(found, snapshot)
    block, rows = predictions.BLOCK, predictions.MOST_ROWS
    speeds = []
    for label, number, at_once in (("together", samples, block), ("one by one", single, 1)):
        predictions.BLOCK, predictions.MOST_ROWS = at_once, min(rows, at_once)
        seconds = []
        for count in (min(number, at_once), number):  # the first builds graphs
            with tempfile.TemporaryDirectory() as folder:
                begun = time.perf_counter()
                done = predictions.predict(subject, test_corpus(found, data), Path(folder), limit=count)
                seconds.append(time.perf_counter() - begun)
        speeds.append(done.samples / seconds[-1])
        click.echo(f"{label:<12}{done.samples:>8,} samples {seconds[-1]:>8.1f} s {speeds[-1]:>8.1f} samples/s")
    click.echo(f"together is {speeds[0] / speeds[1]:.1f} times as fast")
    click.echo(f"peak of memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
