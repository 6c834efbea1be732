"""How runs stand: what a list of experiments shows of each, read from its folder.

Everything here is read while a training may be writing: a last line half written is passed over, and of a file of any
size no more than :data:`MOST_BYTES` are read, its end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, Optional

from seq2seq_chat.config import ConfigError
from seq2seq_chat.runs import Run

State = Literal["training", "finished", "interrupted", "failed"]
MOST_BYTES = 32 * 2**20  # of metrics that are read: a hundred thousand lines and more


class Summary(NamedTuple):
    """A run in one line."""

    name: str
    state: State
    step: int  # of the last metrics; 0 before the first
    steps: Optional[int]  # planned; None where the configuration cannot be read
    best_perplexity: Optional[float]  # of all validations; None before the first
    best_step: Optional[int]
    changed: float  # when something was last written to it, seconds since the epoch
    reason: Optional[str]  # why it failed, where that is known


class Ending(NamedTuple):
    """What a training wrote when it ended by itself."""

    state: State
    step: int
    reason: Optional[str]


def summarize(run: Run) -> Summary:
    """How a run stands. A damaged configuration is no error here, but the reason of a failure."""
    step, best = 0, None
    for line in metrics(run.metrics_file):
        step = max(step, line["step"])
        if line.get("kind") == "validation" and (best is None or _loss(line) < _loss(best)):
            best = line
    ending = read_ending(run)
    steps, fault = None, None
    try:
        steps = run.config.training.steps
    except ConfigError as error:
        fault = str(error)
    state: State = "interrupted"
    if run.is_locked():
        state = "training"
    elif fault is not None:
        state = "failed"
    elif ending is not None:
        state = ending.state
    elif steps is not None and step >= steps:
        state = "finished"
    return Summary(
        name=run.path.name or run.name,
        state=state,
        step=max(step, ending.step) if ending and state != "training" else step,
        steps=steps,
        best_perplexity=_perplexity(best),
        best_step=best["step"] if best else None,
        changed=_changed(run),
        reason=fault or (ending.reason if ending and state == ending.state else None),
    )


def read_ending(run: Run) -> Optional[Ending]:
    """How the training of a run ended, where it says so: end.json."""
    try:
        with open(run.path / "end.json", encoding="utf-8", errors="replace") as file:
            told = json.loads(file.read(2**20))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or told.get("state") not in ("finished", "interrupted", "failed"):
        return None
    step, reason = told.get("step"), told.get("reason")
    return Ending(
        told["state"],
        step if isinstance(step, int) and _is_step(step) else 0,
        reason if isinstance(reason, str) else None,
    )


def metrics(path: Path, most_bytes: int = MOST_BYTES) -> Iterator[dict[str, Any]]:
    """The lines of a metrics or samples file that are whole and have a step, oldest first."""
    for text in _last_lines(path, most_bytes):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and _is_step(line.get("step")):
            yield line


def _last_lines(path: Path, most_bytes: int) -> Iterator[bytes]:
    """The lines at the end of a file, all of them where it is no longer than that; nothing where there is no file."""
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError:
        return
    with file:
        size = file.seek(0, 2)
        file.seek(max(0, size - most_bytes))
        if size > most_bytes:
            file.readline(most_bytes)  # the rest of a line that began before
        left = size - file.tell()  # a growing file must not be followed for ever
        while left > 0 and (line := file.readline(left)):
            left -= len(line)
            yield line


def _is_step(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _loss(line: dict[str, Any]) -> float:
    """The loss of a line; infinite where it has none, as after a loss that was no number."""
    loss = line.get("loss")
    return float(loss) if isinstance(loss, (int, float)) and math.isfinite(loss) else math.inf


def _perplexity(line: Optional[dict[str, Any]]) -> Optional[float]:
    """e to the loss; None where there is no line, or the number is too large to be one."""
    if line is None:
        return None
    try:
        perplexity = math.exp(_loss(line))
    except OverflowError:
        return None
    return perplexity if math.isfinite(perplexity) else None


def _changed(run: Run) -> float:
    """The newest time of the files that change with a training; 0 where there are none any more."""
    times = [0.0]
    for path in (run.path / "config.json", run.metrics_file, run.path / "end.json"):
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(times)
