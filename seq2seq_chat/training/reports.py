"""What a training reports: metrics and replies in the run's files, TensorBoard, and the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from seq2seq_chat.runs.json_lines import JsonLinesWriter
from seq2seq_chat.runs.run import Run
from seq2seq_chat.training.console import Console, format_duration
from seq2seq_chat.training.validation import CorpusLoss, Reply


class Reports:
    """Reports the course of a training.

    Args:
        run: the run whose files are written.
        console: what a person sees.
    """

    def __init__(self, run: Run, console: Console) -> None:
        self._console = console
        self._metrics, self._samples = JsonLinesWriter(run.metrics_file), JsonLinesWriter(run.samples_file)
        self._tensorboard = tf.summary.create_file_writer(str(run.tensorboard))

    def flush(self) -> dict[str, int]:
        """Flush the files to the disk, which must precede a checkpoint; returns the number of lines in each."""
        return {"metrics": self._metrics.flush(), "samples": self._samples.flush()}

    def discard_after(self, step: int | None, expected: Mapping[str, int]) -> None:
        """Remove what was reported after a step, which a resumed training reports again; None removes everything.

        Warns if there are fewer lines than ``expected``, the result of :meth:`flush`.
        """
        for name, lines in (("metrics", self._metrics), ("samples", self._samples)):
            missing = expected.get(name, 0) - lines.discard_after(step)
            if missing > 0:
                self.message(
                    f"warning: {missing} lines of {name}.jsonl are missing or damaged and cannot be restored; "
                    "the training itself is not affected"
                )

    def message(self, text: str) -> None:
        """Show and log a line of text."""
        self._console.log(text)

    def training(self, line: dict[str, Any]) -> None:
        """Report training metrics, see :meth:`Meter.line`."""
        self._metrics.append(line)
        self._console.log_metrics(line)
        self._scalars(
            line["step"],
            {
                "train/loss": line["loss"],
                "train/perplexity": line["perplexity"],
                "train/gradient_norm": line["gradient_norm"],
                "train/target_tokens_per_second": line["tokens"] / max(line["seconds"], 1e-9),
            },
        )

    def validation(self, step: int, result: CorpusLoss, seconds: float, best: bool) -> None:
        """Report a validation."""
        metrics = {"loss": result.loss, "perplexity": result.perplexity}
        rest = {"tokens": result.tokens, "seconds": round(seconds, 3)}
        self._metrics.append({"step": step, "kind": "validation", **metrics, **rest})
        self._scalars(step, {f"validation/{name}": value for name, value in metrics.items()})
        self.message(
            f"validation at step {step:,}: loss {result.loss:.3f} nats per token, perplexity "
            f"{result.perplexity:.1f} on {result.samples:,} samples in {format_duration(seconds)}"
            + (" (best so far)" if best else "")
        )

    def reply(self, step: int, reply: Reply) -> None:
        """Report the model's reply to an utterance."""
        self._samples.append({"step": step, **reply._asdict()})
        self.message(f"  {reply.source}\n    → {reply.reply}")

    def _scalars(self, step: int, values: dict[str, float]) -> None:
        with self._tensorboard.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
