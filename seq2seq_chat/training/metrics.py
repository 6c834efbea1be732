"""Training metrics: means over the steps since they were last logged."""

from __future__ import annotations

from typing import Any

from seq2seq_chat.metrics.perplexity import perplexity
from seq2seq_chat.training.step import StepResult

MAX_PENDING = 100  # steps whose results are on the device


class Meter:
    """Accumulates the results of training steps.

    Results are copied from the device only when they are needed, so that a GPU does not wait for the host.

    Args:
        sampled: whether the losses are estimates of a sampled softmax; part of the metrics.
    """

    def __init__(self, sampled: bool) -> None:
        self._sampled = sampled
        self.reset()

    def reset(self) -> None:
        """Set all sums to zero."""
        self._pending: list[StepResult] = []
        names = ("nats", "tokens", "gradient_norm", "steps", "seconds", "data_seconds")
        self._sums = dict.fromkeys(names, 0.0)

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
        if len(self._pending) >= MAX_PENDING:
            self.sums()

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

    def metrics(self, step: int) -> dict[str, Any]:
        """The metrics of these steps, a line of metrics.jsonl: means per token or step, sums of tokens and seconds."""
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
