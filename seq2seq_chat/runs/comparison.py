"""Runs side by side: the settings in which they differ, and how far they got."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from seq2seq_chat.config import flat_settings
from seq2seq_chat.experiments import metrics, summarize
from seq2seq_chat.runs import Run


class Comparison(NamedTuple):
    """A table: a column for each run."""

    runs: list[str]
    settings: dict[str, list[Any]]  # settings that are not the same in all runs
    figures: dict[str, list[Any]]  # None where a run has none


def compare(runs: Sequence[Run]) -> Comparison:
    """Compare runs, finished or not. Raises ConfigError where a configuration was damaged."""
    settings = [flat_settings(run.config) for run in runs]
    keys = [key for key in dict.fromkeys(key for one in settings for key in one) if key != "name"]
    values = {key: [one.get(key) for one in settings] for key in keys}
    differing = {key: of_each for key, of_each in values.items() if any(value != of_each[0] for value in of_each)}
    columns = [_figures(run) for run in runs]
    return Comparison(
        [run.name for run in runs], differing, {name: [column[name] for column in columns] for name in columns[0]}
    )


def _figures(run: Run) -> dict[str, Any]:
    """What a run reached."""
    summary = summarize(run)
    lines = [line for line in metrics(run.metrics_file) if line.get("kind") == "train"]
    seconds = sum(float(line.get("seconds", 0.0)) for line in lines)
    tokens = sum(int(line.get("tokens", 0)) for line in lines)
    best = summary.best_perplexity
    return {
        "state": summary.state,
        "steps": summary.step,
        "best validation loss (nats per token)": None if best is None else round(math.log(best), 4),
        "best validation perplexity": None if best is None else round(best, 2),
        "reached at step": summary.best_step,
        "last training loss": round(lines[-1]["loss"], 4) if lines and lines[-1].get("loss") is not None else None,
        "target tokens per second": round(tokens / seconds) if seconds else None,
        "hours of training": round(seconds / 3600, 3),
    }


def as_text(found: Comparison) -> str:
    """The table for a terminal."""
    rows = [["", *found.runs]]
    rows += [[key, *map(json.dumps, values)] for key, values in found.settings.items()]
    if not found.settings:
        rows.append(["(no setting differs)", *("" for _ in found.runs)])
    rows.append(["" for _ in rows[0]])
    for name, values in found.figures.items():
        rows.append([name, *("–" if value is None else str(value) for value in values)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)
