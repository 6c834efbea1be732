"""Compare runs: the settings that differ, and the results."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from seq2seq_chat.config import flat_settings
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.run import Run
from seq2seq_chat.runs.summary import MAX_BYTES, summarize
from seq2seq_chat.system.tables import NO_VALUE, format_table

BLEU = "best validation BLEU"  # of translations only


class Comparison(NamedTuple):
    """A table with a column for each run."""

    runs: list[str]
    settings: dict[str, list[Any]]  # only those that differ
    figures: dict[str, list[Any]]  # None if a run has no such figure


def compare(runs: Sequence[Run]) -> Comparison:
    """Compare runs, finished or not. Raises ConfigError if a configuration is damaged."""
    settings = [flat_settings(run.config) for run in runs]
    keys = [key for key in dict.fromkeys(key for of_run in settings for key in of_run) if key != "name"]
    rows = {key: [of_run.get(key) for of_run in settings] for key in keys}
    differing = {key: values for key, values in rows.items() if any(value != values[0] for value in values)}
    of_runs = [_figures(run) for run in runs]
    figures = {name: [of_run[name] for of_run in of_runs] for name in of_runs[0]}
    if set(figures[BLEU]) == {None}:
        del figures[BLEU]
    return Comparison([run.name for run in runs], differing, figures)


def _figures(run: Run) -> dict[str, Any]:
    summary = summarize(run)
    lines = [line for line in read_json_lines(run.metrics_file, MAX_BYTES) if line.get("kind") == "train"]
    seconds = sum(float(line.get("seconds", 0.0)) for line in lines)
    tokens = sum(int(line.get("tokens", 0)) for line in lines)
    best = summary.best_perplexity
    return {
        "state": summary.state,
        "steps": summary.step,
        "initialized from": summary.initialized_from,
        "best validation loss (nats per token)": None if best is None else round(math.log(best), 4),
        "best validation perplexity": None if best is None else round(best, 2),
        BLEU: None if summary.best_bleu is None else round(summary.best_bleu, 2),
        "reached at step": summary.best_step,
        "last training loss": round(lines[-1]["loss"], 4) if lines and lines[-1].get("loss") is not None else None,
        "target tokens per second": round(tokens / seconds) if seconds else None,
        "hours of training": round(seconds / 3600, 3),
    }


def format_comparison(comparison: Comparison) -> str:
    """Format a comparison as a table for the terminal."""
    blank = ["" for _ in comparison.runs]
    rows = [["", *comparison.runs]]
    rows += [[key, *map(json.dumps, values)] for key, values in comparison.settings.items()]
    if not comparison.settings:
        rows.append(["(no setting differs)", *blank])
    rows.append(["", *blank])
    for name, values in comparison.figures.items():
        rows.append([name, *(NO_VALUE if value is None else str(value) for value in values)])
    return format_table(rows, "lr")
