#!/usr/bin/env python3
"""Measure what a model loses when its weights are rounded to 8-bit integers, as in the page of `export --format html`.

python scripts/measure_rounding.py latest --data data/dailydialog/test.txt --limit 1000

Perplexity is exact, BLEU is that of greedy replies; "same replies" is the share of replies that rounding leaves as they
were.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click
from contenders.table import json_option, print_table

from seq2seq_chat.analysis.evaluate import compute_metrics, evaluation_corpus
from seq2seq_chat.analysis.loaded_run import LoadedRun
from seq2seq_chat.analysis.predictions import Predictions, predict
from seq2seq_chat.analysis.scoring import score_predictions
from seq2seq_chat.cli.running import run_command
from seq2seq_chat.export.html.model_file import round_weights
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.versions import load_tensorflow

COLUMNS = ["weights", "perplexity", "BLEU", "same replies"]


@click.command(help=__doc__)
@click.argument("run_name", metavar="RUN")
@click.option("--results", default="results", show_default=True, help="folder of the runs")
@click.option("--snapshot", help="name of the snapshot; default: the newest weights")
@click.option("--data", help="corpus file; default: the run's test or validation corpus")
@click.option("--limit", type=click.IntRange(1), help="number of samples, evenly spaced; default: all")
@json_option
def main(
    run_name: str, results: str, snapshot: str | None, data: str | None, limit: int | None, json_file: Path | None
) -> None:
    """Evaluate a run with its own and with rounded weights, and print the table."""
    load_tensorflow()
    try:
        run = find_run(run_name, results)
        corpus = evaluation_corpus(run, data)
        loaded = LoadedRun(run, snapshot)
        with tempfile.TemporaryDirectory() as folder:
            own = predict(loaded, corpus, Path(folder), limit=limit)
            round_weights(loaded.model)
            rounded = predict(loaded, corpus, Path(folder), limit=limit)
            rows = [
                measure("32-bit floats", own, own, run.config.task),
                measure("8-bit", rounded, own, run.config.task),
            ]
    except UserError as error:
        raise click.UsageError(str(error)) from error
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"run": run.name, "data": str(corpus), "rows": rows})


def measure(weights: str, predictions: Predictions, own: Predictions, task: str) -> dict[str, Any]:
    """A row of the table."""
    metrics = compute_metrics(predictions, None, score_predictions(predictions, task))
    pairs = zip(predictions, own, strict=True)
    same = sum(one.reply_tokens == other.reply_tokens for one, other in pairs)
    return {
        "weights": weights,
        "perplexity": f"{metrics['perplexity']:.3f}",
        "BLEU": f"{metrics['bleu']:.2f}",
        "same replies": f"{100 * same / predictions.samples:.1f} %",
    }


if __name__ == "__main__":
    run_command(main)
