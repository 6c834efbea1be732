"""Runs as JSON: summaries for the list, details and learning curves for the page of a run."""

from __future__ import annotations

import contextlib
import json
import math
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from seq2seq_chat.config import Config, ConfigError
from seq2seq_chat.runs import run as runs
from seq2seq_chat.runs.json_lines import finite_number, read_json_lines
from seq2seq_chat.runs.summary import MAX_BYTES, Comparison, Notes, Summary
from webui.decoding_options import decoding_options, default_settings
from webui.limits import Limits
from webui.run_registry import snapshots, strip_paths
from webui.schemas import Count, Prompt, RequestBody, Text

MAX_NOTE_LENGTH = 10_000
MAX_QUESTIONS = 100
MAX_COMPARED = 20  # runs in a comparison
MAX_PROMPTS = 1000
PROMPTS = 50  # taken from a test corpus by default

Values = Annotated[list[float | None], Field(description="null where it is missing")]


class NotesRequest(Notes):
    """Notes about a run."""

    text: Text = Field("", max_length=MAX_NOTE_LENGTH)


class Run(Summary):
    """The summary of a run."""

    notes: NotesRequest
    newest_step: Count | None = Field(description="training steps of the newest weights; null before the first")


class RunList(BaseModel):
    """All runs."""

    runs: list[Run]


class AllSettings(BaseModel):
    """The settings of all runs."""

    settings: dict[str, dict[str, Any]] = Field(description="by run and path; empty if a configuration is invalid")


class TrainingCurve(BaseModel):
    """What training reported."""

    step: list[Count]
    loss: Values
    learning_rate: Values
    gradient_norm: Values


class ValidationCurve(BaseModel):
    """What validation measured."""

    step: list[Count]
    loss: Values
    bleu: Values


class Curves(BaseModel):
    """The learning curves of a run: lists of equal length; losses in nats per target token."""

    train: TrainingCurve
    validation: ValidationCurve


class DecodingForm(BaseModel):
    """The form for decoding settings."""

    options: list[dict[str, Any]] = Field(description="its fields")
    defaults: dict[str, dict[str, Any]] = Field(description="what it shows at first, by method")
    method: str | None


class SampleReply(BaseModel):
    """A reply that was sampled during training."""

    step: Count
    source: str
    reply: str
    target: str


class RunPage(Run):
    """All details of a run."""

    snapshots: list[str]
    config: dict[str, Any] | None = Field(description="the run's configuration; null if it is invalid")
    decoding: DecodingForm
    context_turns: Count
    curves: Curves
    samples: list[SampleReply]
    checks: dict[str, Any] | None
    files: list[str] = Field(description="figures and pages of the report")


class ComparisonQuery(BaseModel):
    """The runs to compare."""

    run: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1, max_length=MAX_COMPARED)


class RunComparison(Comparison):
    """A table with a column for each run, and the learning curves."""

    curves: dict[str, Curves]


class AnswersRequest(RequestBody):
    """Questions for the checkpoints of a run."""

    step: int | None = Field(
        None, ge=0, description="training steps of the weights that reply now if they have not; null: none do"
    )
    questions: list[Prompt] = Field(min_length=1, max_length=MAX_QUESTIONS)


class CheckpointAnswers(BaseModel):
    """The replies of a checkpoint."""

    step: Count
    replies: list[str | None] = Field(description="in the order of the questions")


class AnswerTable(BaseModel):
    """The replies by step."""

    answers: list[CheckpointAnswers]
    unanswered: list[Count] = Field(
        description="steps of weights that have not replied to all, those that training deletes next first"
    )


class PromptsQuery(BaseModel):
    """How many prompts to take."""

    count: int = Field(PROMPTS, ge=1, le=MAX_PROMPTS)


class PromptList(BaseModel):
    """Sources of a corpus."""

    prompts: list[str]


MAX_SAMPLES = 2000  # the newest sample replies
MAX_FILES = 200  # in a report
MAX_POINTS = 400  # in a curve; a screen shows no more
CURVES: dict[str, type[BaseModel]] = {"train": TrainingCurve, "validation": ValidationCurve}
MEDIA_TYPES = {
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".jpg": "image/jpeg",
    ".html": "text/html; charset=utf-8",
}

Curve = dict[str, list[float | None]]


def run_summary(summary: Summary, results: Path) -> dict[str, Any]:
    """The summary of a run and the step of its newest weights, without paths of the server."""
    reason = strip_paths(summary.reason, results) if summary.reason else None
    newest_step = runs.Run(results / summary.name).newest_step
    return summary.model_dump() | {"reason": reason, "newest_step": newest_step}


def run_details(run: runs.Run, summary: Summary, results: Path, limits: Limits) -> dict[str, Any]:
    """All details of a run. Fields that depend on its configuration are null or empty if that is invalid."""
    try:
        config: Config | None = run.config
    except ConfigError:
        config = None
    return {
        **run_summary(summary, results),
        "snapshots": snapshots(run),
        "config": config.model_dump(mode="json") if config else None,
        "decoding": {
            "options": decoding_options(limits),
            "defaults": default_settings(config.decoding, limits) if config else {},
            "method": config.decoding.method if config else None,
        },
        "context_turns": config.data.context_turns if config else 0,
        "curves": learning_curves(run),
        "samples": sample_replies(run),
        "checks": newest_checks(results, config.name) if config else None,
        "files": sorted(report_files(run)),
    }


def learning_curves(run: runs.Run) -> dict[str, Curve]:
    """The curves of training, averaged down to MAX_POINTS, and of validation, thinned out to as many.

    A curve has a list of steps and lists of equal length for each other field of its model, with None where one is
    missing or not finite. Losses are in nats per target token.
    """
    lines: dict[str, list[dict[str, Any]]] = {kind: [] for kind in CURVES}
    for line in read_json_lines(run.metrics_file, MAX_BYTES):
        if str(line.get("kind")) in lines:
            lines[line["kind"]].append(line)
    lines["validation"] = _thinned(lines["validation"])
    return {kind: _curve(lines[kind], [*model.model_fields]) for kind, model in CURVES.items()}


def _thinned(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first line, the last one, and the one with the lowest loss of each group of neighbors between them."""

    def loss(line: dict[str, Any]) -> float:
        number = finite_number(line.get("loss"))
        return math.inf if number is None else number

    inner = lines[1:-1]
    size = math.ceil(len(inner) / (MAX_POINTS - 2)) or 1
    lowest = [min(inner[start : start + size], key=loss) for start in range(0, len(inner), size)]
    return [*lines[:1], *lowest, *lines[1:][-1:]]


def _curve(lines: list[dict[str, Any]], names: list[str]) -> Curve:
    """Average groups of neighboring lines, at the step of the last one."""
    size = math.ceil(len(lines) / MAX_POINTS) or 1
    groups = [lines[start : start + size] for start in range(0, len(lines), size)]
    return {
        "step": [group[-1]["step"] for group in groups],
        **{name: [_mean([line.get(name) for line in group]) for group in groups] for name in names if name != "step"},
    }


def _mean(values: list[Any]) -> float | None:
    finite = [number for number in map(finite_number, values) if number is not None]
    return float(f"{sum(finite) / len(finite):.6g}") if finite else None


def sample_replies(run: runs.Run) -> list[dict[str, Any]]:
    """The replies sampled during training, oldest first."""
    texts = ("source", "reply", "target")
    lines = [
        {"step": line["step"], **{key: str(line.get(key, ""))[:2000] for key in texts}}
        for line in read_json_lines(run.samples_file, 2**21)
    ]
    return lines[-MAX_SAMPLES:]


def newest_checks(results: Path, name: str) -> dict[str, Any] | None:
    """The results of the newest checks of an experiment; None if it was never checked."""
    keys = ("check", "passed", "figure", "threshold", "detail")
    for file in sorted(results.glob("checks/*/checks.json"), reverse=True):
        time, experiment = file.parent.name[:20], file.parent.name[20:]
        if not re.fullmatch(rf"{re.escape(name)}(-\d+)?", experiment):
            continue
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            content = json.loads(file.read_text(encoding="utf-8")[: 2**20])
            checks = [{key: check.get(key) for key in keys} for check in content["checks"][:100]]
            for check in checks:
                check["detail"] = strip_paths(str(check["detail"] or ""), results)
            time = time.rstrip("_").replace("_", " ")
            return {"time": time, "passed": bool(content.get("passed")), "checks": checks}
    return None


def report_files(run: runs.Run) -> dict[str, Path]:
    """The figures and pages of a run's reports by their name in the API: the relative path with ``--`` for ``/``."""
    files: dict[str, Path] = {}
    for folder in (run.path, run.path / "report", run.path / "analysis"):
        for path in sorted(folder.glob("*")):
            if path.suffix in MEDIA_TYPES and path.is_file() and not path.is_symlink() and len(files) < MAX_FILES:
                files[path.relative_to(run.path).as_posix().replace("/", "--")] = path
    return files
