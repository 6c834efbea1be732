"""Report the progress of training: metrics and replies in the run's files, TensorBoard, and the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.plugins.scalar.summary_v2 import scalar_pb

from seq2seq_chat.metrics.perplexity import CorpusLoss
from seq2seq_chat.model.eager import call_with_arrays
from seq2seq_chat.runs.json_lines import JsonLinesWriter
from seq2seq_chat.runs.run import Run
from seq2seq_chat.training.console import Console, format_duration
from seq2seq_chat.training.validation import SampleReply


class Reporter:
    """Writes the metrics of a run to all of these places."""

    def __init__(self, run: Run, console: Console) -> None:
        self._console = console
        self._metrics, self._samples = JsonLinesWriter(run.metrics_file), JsonLinesWriter(run.samples_file)
        self._tensorboard = tf.summary.create_file_writer(str(run.tensorboard))

    def flush(self) -> dict[str, int]:
        """Flush the files to the disk, which must precede a checkpoint; returns the number of lines in each."""
        return {"metrics": self._metrics.flush(), "samples": self._samples.flush()}

    def discard_after(self, step: int | None, expected: Mapping[str, int]) -> None:
        """Remove what was reported after a step, since resumed training reports it again; None removes everything.

        Warns if there are fewer lines than ``expected``, the result of :meth:`flush`.
        """
        for name, lines in (("metrics", self._metrics), ("samples", self._samples)):
            missing = expected.get(name, 0) - lines.discard_after(step)
            if missing > 0:
                self.log(
                    f"warning: {missing} lines of {name}.jsonl are missing or damaged and cannot be restored; "
                    "training itself is not affected"
                )

    def log(self, text: str) -> None:
        """Print a line and append it to the log file."""
        self._console.log(text)

    def log_metrics(self, metrics: dict[str, Any]) -> None:
        """Report training metrics, see :meth:`Meter.metrics`."""
        self._metrics.append(metrics)
        self._console.log_metrics(metrics)
        self._write_scalars(
            metrics["step"],
            {
                "train/loss": metrics["loss"],
                "train/perplexity": metrics["perplexity"],
                "train/gradient_norm": metrics["gradient_norm"],
                "train/target_tokens_per_second": metrics["tokens"] / max(metrics["seconds"], 1e-9),
            },
        )

    def log_validation(
        self, step: int, result: CorpusLoss, seconds: float, best: bool, bleu: float | None = None
    ) -> None:
        """Report a validation."""
        metrics = {"loss": result.loss, "perplexity": result.perplexity}
        if result.samples is None:
            metrics["bits_per_token"] = result.bits_per_token
        if bleu is not None:
            metrics["bleu"] = bleu
        counts = {"tokens": result.tokens, "seconds": round(seconds, 3)}
        self._metrics.append({"step": step, "kind": "validation", **metrics, **counts})
        self._write_scalars(step, {f"validation/{name}": value for name, value in metrics.items()})
        bits = f" ({result.bits_per_token:.3f} bits)" if result.samples is None else ""
        corpus = f"{result.tokens:,} tokens" if result.samples is None else f"{result.samples:,} samples"
        self.log(
            f"validation at step {step:,}: loss {result.loss:.3f} nats{bits} per token, perplexity "
            f"{result.perplexity:.1f} on {corpus}{'' if bleu is None else f', BLEU {bleu:.2f},'} in "
            f"{format_duration(seconds)}" + (" (best so far)" if best else "")
        )

    def log_reply(self, step: int, reply: SampleReply) -> None:
        """Report the model's reply to an utterance."""
        self._samples.append({"step": step, **reply._asdict()})
        self.log(f"  {reply.source}\n    → {reply.reply}")

    def _write_scalars(self, step: int, values: dict[str, float]) -> None:
        """Write numbers for TensorBoard by one operation, as ``tf.summary.scalar`` leaks memory with each number."""
        with np.errstate(over="ignore"):  # beyond float32 they become infinite
            summary = b"".join(scalar_pb(name, value).SerializeToString() for name, value in values.items())
        with self._tensorboard.as_default(step=np.int64(step)):
            call_with_arrays(tf.summary.experimental.write_raw_pb, np.array(summary, object))
