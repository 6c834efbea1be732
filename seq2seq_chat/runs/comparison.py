"""Compare runs by their settings and results, and the checkpoints of a run by their replies to the same questions."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from seq2seq_chat.config import flat_settings
from seq2seq_chat.runs.json_lines import append_durably, read_json_lines
from seq2seq_chat.runs.run import Run, snapshot_step
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


def read_answers(run: Run) -> dict[int, dict[str, str]]:
    """The replies of a run by training step and question."""
    answers: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for line in read_json_lines(run.answers_file):
        question, reply = line.get("question"), line.get("reply")
        if isinstance(question, str) and isinstance(reply, str):
            answers[line["step"]][question] = reply
    return dict(answers)


def add_answer(run: Run, step: int, question: str, reply: str) -> None:
    """Store a reply. Raises UserError if the file could not be written."""
    append_durably(run.answers_file, {"step": step, "question": question, "reply": reply})


def unanswered_steps(run: Run, questions: Sequence[str], answers: Mapping[int, Mapping[str, str]]) -> list[int]:
    """The steps of weights that have not replied to all questions.

    Those that training deletes next are first: checkpoints, the oldest first, and then snapshots, the newest first.
    """
    kept = {snapshot_step(name) for name in run.snapshots()}
    steps = sorted(run.saved_steps(), key=lambda step: (step in kept, -step if step in kept else step))
    return [step for step in steps if not answers.get(step, {}).keys() >= set(questions)]
