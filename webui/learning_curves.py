"""The learning curves of a run as JSON."""

from __future__ import annotations

import math
from typing import Any

from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.run import Run
from seq2seq_chat.runs.summary import MAX_BYTES

MAX_POINTS = 400  # in a curve; a screen shows no more
QUANTITIES = {"train": ("loss", "learning_rate", "gradient_norm"), "validation": ("loss", "bleu")}

Curve = dict[str, list[float | None]]


def learning_curves(run: Run) -> dict[str, Curve]:
    """The curves of training and of validation, averaged down to MAX_POINTS.

    A curve has a list of steps and lists of equal length for each of its :data:`QUANTITIES`, with None where one is
    missing or not finite. Losses are in nats per target token.
    """
    lines: dict[str, list[dict[str, Any]]] = {kind: [] for kind in QUANTITIES}
    for line in read_json_lines(run.metrics_file, MAX_BYTES):
        if line.get("kind") in lines:
            lines[line["kind"]].append(line)
    return {kind: _curve(lines[kind], names) for kind, names in QUANTITIES.items()}


def _curve(lines: list[dict[str, Any]], names: tuple[str, ...]) -> Curve:
    """Average groups of neighboring lines, at the step of the last one."""
    size = math.ceil(len(lines) / MAX_POINTS) or 1
    groups = [lines[start : start + size] for start in range(0, len(lines), size)]
    return {
        "step": [group[-1]["step"] for group in groups],
        **{name: [_mean([line.get(name) for line in group]) for group in groups] for name in names},
    }


def _mean(values: list[Any]) -> float | None:
    finite = [value for value in values if isinstance(value, (int, float)) and math.isfinite(value)]
    return float(f"{sum(finite) / len(finite):.6g}") if finite else None
