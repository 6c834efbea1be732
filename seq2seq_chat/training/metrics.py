"""Training metrics: means over the steps since the previous report."""

from __future__ import annotations

from typing import Any

from seq2seq_chat.training.step import StepResult
from seq2seq_chat.training.validation import perplexity


class Meter:
    """Accumulates the results of training steps since the last line of metrics.

    Results are copied from the device only when they are needed, so that a GPU does not wait for the host.

    Args:
        sampled: whether the losses are estimates of a sampled softmax, which is reported with them.
    """

    def __init__(self, sampled: bool) -> None:
        self._sampled = sampled
        self.reset()

    def reset(self) -> None:
        """Start again from zero."""
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
        """Add a step.

        Args:
            result: the step's loss and gradient norm.
            seconds: how long the step took.
            data_seconds: how much of it was spent waiting for the batch.
        """
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
        """Continue from the sums of a checkpoint."""
        self.reset()
        self._sums.update(sums)

    def line(self, step: int) -> dict[str, Any]:
        """The line of metrics.jsonl for these steps: means per token or step, and sums of tokens and seconds."""
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
