"""The status of a run, read from its folder, possibly while a training run writes to it; and notes of people."""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, Field, NonNegativeInt

from seq2seq_chat.config import ConfigError, flat_settings
from seq2seq_chat.runs.json_lines import append_durably, finite_number, is_step, read_json_lines
from seq2seq_chat.runs.run import Run, snapshot_step
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.tables import NO_VALUE, format_table

State = Literal["training", "finished", "interrupted", "failed"]
MAX_BYTES = 32 * 2**20  # read from the end of a metrics file: more than a hundred thousand lines
NOTES_FILE = "notes.json"


class Notes(BaseModel, strict=True, extra="forbid"):
    """What people note about a run."""

    star: bool = False
    hidden: bool = Field(False, description="whether lists leave the run out")
    text: str = ""


def read_notes(run: Path) -> Notes:
    """The notes in a run's folder; empty ones if the file is missing or damaged."""
    try:
        return Notes.model_validate(json.loads((run / NOTES_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return Notes()


def write_notes(run: Path, notes: Notes) -> None:
    """Write the notes atomically. Raises UserError if the file could not be written."""
    write_json(run / NOTES_FILE, notes.model_dump())


class Summary(BaseModel):
    """The status of a run."""

    name: str
    state: State
    step: NonNegativeInt = Field(description="step of the newest metrics")  # 0 before the first
    steps: NonNegativeInt | None = Field(description="planned number of steps")  # None: the configuration is damaged
    task: Literal["conversation", "translation", "language_model", None]  # None: the configuration is damaged
    best_perplexity: float | None = Field(description="validation perplexity of the best weights")  # None: not yet
    best_bleu: float | None = Field(description="validation BLEU of a translation")
    best_step: NonNegativeInt | None
    changed: float = Field(description="Unix time of the last write, in seconds")
    reason: str | None = Field(description="reason of the failure")
    initialized_from: str | None = Field(description="run and step of the initial weights; null: random ones")
    notes: Notes


class End(NamedTuple):
    """The contents of end.json."""

    state: State
    step: int
    reason: str | None


def summarize(run: Run) -> Summary:
    """Summarize a run. If its configuration is damaged, its state is "failed"."""
    config, error = None, None
    try:
        config = run.config
    except ConfigError as config_error:
        error = str(config_error)
    steps = config.training.steps if config else None
    by_bleu = config is not None and config.training.best_metric == "bleu"
    step, best, best_cost = 0, None, math.inf
    for line in read_json_lines(run.metrics_file, MAX_BYTES):
        step = max(step, line["step"])
        if line.get("kind") == "validation":
            value = finite_number(line.get("bleu" if by_bleu else "loss"))
            cost = math.inf if value is None else -value if by_bleu else value
            if best is None or cost < best_cost:
                best, best_cost = line, cost
    end = read_end(run)
    state: State = "finished" if run.is_exported else "interrupted"
    if run.is_exported:
        step = run.newest_step or 0
    if run.is_locked():
        state = "training"
    elif error is not None:
        state = "failed"
    elif end is not None:
        state = end.state
    elif steps is not None and step >= steps:
        state = "finished"
    return Summary.model_construct(  # not validated: names of folders need not be Unicode
        name=run.path.name or run.name,
        state=state,
        step=max(step, end.step) if end and state != "training" else step,
        steps=steps,
        task=config.task if config else None,
        best_perplexity=_perplexity(best),
        best_bleu=finite_number(best.get("bleu")) if best else None,
        best_step=best["step"] if best else None,
        changed=_last_change(run),
        reason=error or (end.reason if end and state == end.state else None),
        initialized_from=read_initialization(run),
        notes=read_notes(run.path),
    )


def read_initialization(run: Run) -> str | None:
    """Whose weights a run started from: "NAME at step 2,000"; None if it started from random ones."""
    first = next(read_json_lines(run.history_file), {})
    origin = first.get("initialized_from")
    if not (isinstance(origin, dict) and isinstance(origin.get("run"), str) and is_step(origin.get("step"))):
        return None
    return f"{origin['run']} at step {origin['step']:,}"


def read_end(run: Run) -> End | None:
    """Read end.json of a run; None if it is missing or damaged."""
    try:
        with open(run.path / "end.json", encoding="utf-8", errors="replace") as file:
            end = json.loads(file.read(2**20))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(end, dict) or end.get("state") not in ("finished", "interrupted", "failed"):
        return None
    step, reason = end.get("step"), end.get("reason")
    return End(
        end["state"],
        step if isinstance(step, int) and is_step(step) else 0,
        reason if isinstance(reason, str) else None,
    )


def _perplexity(line: dict[str, Any] | None) -> float | None:
    """The perplexity of a line of metrics; None if its loss is missing, was not finite, or is too large."""
    loss = finite_number(line.get("loss")) if line else None
    return None if loss is None or loss > math.log(sys.float_info.max) else math.exp(loss)


def _last_change(run: Run) -> float:
    """Modification time of the newest file that a training run writes; 0 if there is none."""
    times = [0.0]
    for path in (run.path / "config.json", run.metrics_file, run.path / "end.json"):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


BLEU = "best validation BLEU"  # of translations only


class Comparison(BaseModel):
    """A table with a column for each run."""

    runs: list[str]
    settings: dict[str, list[Any]] = Field(description="values of the settings that differ, in the order of the runs")
    figures: dict[str, list[Any]] = Field(description="results of the runs")  # None if a run has no such figure


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
    return Comparison.model_construct(runs=[run.name for run in runs], settings=differing, figures=figures)


def _figures(run: Run) -> dict[str, Any]:
    summary = summarize(run)
    lines = [line for line in read_json_lines(run.metrics_file, MAX_BYTES) if line.get("kind") == "train"]
    seconds, tokens = (sum(finite_number(line.get(key)) or 0 for line in lines) for key in ("seconds", "tokens"))
    best, last = summary.best_perplexity, finite_number(lines[-1].get("loss")) if lines else None
    return {
        "state": summary.state,
        "steps": summary.step,
        "initialized from": summary.initialized_from,
        "best validation loss (nats per token)": None if best is None else round(math.log(best), 4),
        "best validation perplexity": None if best is None else round(best, 2),
        BLEU: None if summary.best_bleu is None else round(summary.best_bleu, 2),
        "reached at step": summary.best_step,
        "last training loss": None if last is None else round(last, 4),
        "target tokens per second": round(tokens / seconds) if seconds else None,
        "hours of training": round(seconds / 3600, 3),
    }


def format_comparison(comparison: Comparison) -> str:
    """Format a comparison as a table for the terminal."""
    blank = ["" for _ in comparison.runs]
    rows = [["", *comparison.runs]]
    rows += [
        [key, *(json.dumps(value, ensure_ascii=False) for value in values)]
        for key, values in comparison.settings.items()
    ]
    if not comparison.settings:
        rows.append(["(no setting differs)", *blank])
    rows.append(["", *blank])
    for name, values in comparison.figures.items():
        rows.append([name, *(NO_VALUE if value is None else str(value) for value in values)])
    return format_table(rows, "lr")


def read_answers(run: Run) -> dict[int, dict[str, str]]:
    """The replies of a run by training step and question."""
    answers: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for line in read_json_lines(run.answers_file, reports=True):
        question, reply = line.get("question"), line.get("reply")
        if isinstance(question, str) and isinstance(reply, str):
            answers[line["step"]][question] = reply
    return dict(answers)


def add_answer(run: Run, step: int, question: str, reply: str) -> None:
    """Store a reply. Raises UserError if the file could not be written."""
    append_durably(run.answers_file, {"step": step, "question": question, "reply": reply})


def unanswered_steps(run: Run, questions: Sequence[str], answers: Mapping[int, Mapping[str, str]]) -> list[int]:
    """The steps of weights that have not replied to all questions.

    Weights that training deletes next are first: checkpoints, the oldest first, and then snapshots, the newest first.
    """
    kept = {snapshot_step(name) for name in run.snapshots()}
    steps = sorted(run.saved_steps(), key=lambda step: (step in kept, -step if step in kept else step))
    return [step for step in steps if not answers.get(step, {}).keys() >= set(questions)]
