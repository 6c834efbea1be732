"""What a training reports: running means, and files of one JSON object a line."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, Optional

from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.training.step import StepResult
from seq2seq_chat.training.validation import perplexity


class Meter:
    """Sums over the steps since the last line of metrics.

    ``sampled`` says that the losses are estimates of a sampled softmax, and is told with them. Results are taken from
    the device only when they are asked for, so that a GPU need not wait for the host.
    """

    def __init__(self, sampled: bool) -> None:
        self._sampled = sampled
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self._pending: list[StepResult] = []
        self._sums = {
            "nats": 0.0,
            "tokens": 0.0,
            "gradient_norm": 0.0,
            "steps": 0.0,
            "seconds": 0.0,
            "data_seconds": 0.0,
        }

    def add(self, result: StepResult, seconds: float, data_seconds: float) -> None:
        """Count one step that took some seconds, some of them to get the batch."""
        self._pending.append(result)
        self._sums["seconds"] += seconds
        self._sums["data_seconds"] += data_seconds

    def sums(self) -> dict[str, float]:
        """The sums so far; kept in a checkpoint so that a resumed run reports the same means."""
        for result in self._pending:
            self._sums["nats"] += float(result.loss.nats)
            self._sums["tokens"] += float(result.loss.tokens)
            self._sums["gradient_norm"] += float(result.gradient_norm)
            self._sums["steps"] += 1
        self._pending.clear()
        return dict(self._sums)

    def restore(self, sums: dict[str, float]) -> None:
        """Go on from the sums of a checkpoint."""
        self.reset()
        self._sums.update(sums)

    def line(self, step: int) -> dict[str, Any]:
        """A line of training metrics: means over the steps since the last one."""
        sums = self.sums()
        loss = sums["nats"] / sums["tokens"]
        return {
            "step": step,
            "kind": "train",
            "loss": loss,
            "perplexity": perplexity(loss),
            "tokens": int(sums["tokens"]),
            "seconds": round(sums["seconds"], 3),
            "data_seconds": round(sums["data_seconds"], 4),
            "gradient_norm": sums["gradient_norm"] / sums["steps"],
            "softmax": "sampled" if self._sampled else "full",
        }


class JsonLines:
    """A file of one JSON object a line, each with a ``step``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, line: dict[str, Any]) -> None:
        """Add a line; an infinite perplexity becomes null, which is all that JSON has for it."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(finite_or_null(line)) + "\n")

    def read(self) -> list[dict[str, Any]]:
        """All whole lines; a last line that was cut by a crash is passed over."""
        return read_json_lines(self._path)

    def secure(self) -> int:
        """Have the lines on the disk, and tell how many there are."""
        try:
            with open(self._path, "rb") as file:
                os.fsync(file.fileno())
                return sum(1 for _ in file)
        except FileNotFoundError:
            return 0

    def forget_after(self, step: Optional[int]) -> int:
        """Drop the lines of later steps, which a resumed training writes again; the number of lines that stay."""
        if not self._path.exists():
            return 0
        lines = [line for line in self.read() if isinstance(line.get("step"), int)]
        kept = [line for line in lines if step is not None and line["step"] <= step]
        with atomic_write(self._path) as file:
            file.writelines(json.dumps(line) + "\n" for line in kept)
        return len(kept)


def finite_or_null(line: dict[str, Any]) -> dict[str, Any]:
    """The same with null for what is infinite or no number, for which JSON has nothing."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in line.items()
    }


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file; lines that are no JSON object are passed over."""
    lines = []
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(value, dict):
            lines.append(value)
    return lines
