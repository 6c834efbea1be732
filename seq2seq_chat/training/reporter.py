"""Progress of training: sums of metrics, the console, and everything that a run keeps of them."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import tensorflow as tf
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.record_writer import RecordWriter
from tqdm import tqdm

from seq2seq_chat.metrics.scores import CorpusLoss, perplexity
from seq2seq_chat.model.execution import call_with_arrays, file_errors_as_os_error
from seq2seq_chat.runs.json_lines import JsonLinesWriter
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.files import atomic_write
from seq2seq_chat.system.tables import pluralize
from seq2seq_chat.training.step import StepResult
from seq2seq_chat.training.validation import SampleReply

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


logger = logging.getLogger(__name__)

_BAR_FORMAT = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} steps [{elapsed}{postfix}]"


class Console:
    """Prints lines above a progress bar, and appends them to a log file, if there is one."""

    def __init__(self, log_file: Path | None = None) -> None:
        self._log_file = log_file
        self._bar: Any | None = None
        self._stdout_failed = False
        self._steps: int | None = None
        self._start_clock(0)
        self._metrics_text = ""

    def log(self, text: str) -> None:
        """Print a line and append it to the log file."""
        if self._bar is not None:
            self._bar.clear()
        try:
            print(text, flush=True)
        except OSError as error:  # a closed pipe or a full disk must not stop training
            if not self._stdout_failed:
                self._stdout_failed = True
                hint = f", see {self._log_file}" if self._log_file else ""
                logger.warning("could not write the output: %s; training continues%s", error.strerror, hint)
        if self._bar is not None:
            self._bar.refresh()
        self._append(text)

    def _append(self, text: str) -> None:
        if self._log_file is None:
            return
        with open(self._log_file, "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def start_progress(self, step: int, steps: int | None) -> None:
        """Start the progress bar at ``step`` of ``steps``; None: their number is not known yet."""
        self.log("building the graph…")
        self._steps = steps
        self._start_clock(step)
        if sys.stderr.isatty() and _has_size(sys.stderr):
            self._bar = tqdm(total=steps, initial=step, dynamic_ncols=True, bar_format=_BAR_FORMAT)

    def _start_clock(self, step: int) -> None:
        self._start, self._first_step = time.monotonic(), step
        self._tracing_steps, self._tracing_seconds = 0, 0.0  # steps that traced a graph, and how long they took

    def set_steps(self, steps: int, step: int) -> None:
        """Change the number of steps after ``step``; the time left follows from how long the ones after it take."""
        self._steps = steps
        self._start_clock(step)
        if self._bar is not None:
            self._bar.total = steps
            self._bar.refresh()

    def advance(self, step: int, meter: Meter, tracing_seconds: float = 0.0) -> None:
        """Update the progress bar after a step.

        Args:
            step: number of steps done.
            meter: the metrics since they were last logged.
            tracing_seconds: how long the step took if it traced a graph, else 0; not part of the time left.
        """
        self._tracing_steps += tracing_seconds > 0
        self._tracing_seconds += tracing_seconds
        if self._bar is None:
            return
        if step % 10 == 0:
            sums = meter.sums()
            if sums["tokens"]:
                metrics = meter.metrics(step)
                rate = sums["tokens"] / max(sums["seconds"], 1e-9)
                loss = f"loss {metrics['loss']:.3f}, perplexity {metrics['perplexity']:.1f}"
                self._metrics_text = f", {loss}, {rate:,.0f} tokens/s"
        self._bar.set_postfix_str(self._time_left(step) + self._metrics_text, refresh=False)
        self._bar.update()

    def log_metrics(self, metrics: dict[str, Any]) -> None:
        """Log training metrics; only to the log file if the progress bar shows them."""
        loss = "sampled loss" if metrics["softmax"] == "sampled" else "loss"
        text = (
            f"step {metrics['step']:,}{'' if self._steps is None else f' of {self._steps:,}'}: "
            f"{loss} {metrics['loss']:.3f}, perplexity {metrics['perplexity']:.1f}, "
            f"{metrics['tokens'] / max(metrics['seconds'], 1e-9):,.0f} target tokens/s, "
            f"{self._time_left(metrics['step'])}"
        )
        if self._bar is None:
            self.log(text)
        else:
            self._append(text)

    def stop_progress(self) -> None:
        """Remove the progress bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _time_left(self, step: int) -> str:
        timed_steps = step - self._first_step - self._tracing_steps
        if not timed_steps or self._steps is None:
            return "time left unknown"
        seconds = (time.monotonic() - self._start - self._tracing_seconds) / timed_steps * (self._steps - step)
        return f"{format_duration(seconds)} left"


def _has_size(terminal: IO[str]) -> bool:
    """Whether a terminal has a size; in one without, as with ``docker run -t`` in a script, a bar is empty."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns > 0
    except (OSError, ValueError):
        return True


def format_duration(seconds: float) -> str:
    """3725 → "1:02:05"; longer than two days → "12.3 days"."""
    if seconds > 172_800:
        return f"{seconds / 86_400:.1f} days"
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"


class Reporter:
    """Writes the metrics of a run to all of these places."""

    def __init__(self, run: Run, console: Console) -> None:
        self._console = console
        self._metrics, self._samples = JsonLinesWriter(run.metrics_file), JsonLinesWriter(run.samples_file)
        self._folder = run.tensorboard
        self._tensorboard: Any = None

    def flush(self) -> dict[str, int]:
        """Flush the files to the disk, which must precede a checkpoint; returns the number of lines in each."""
        return {"metrics": self._metrics.flush(), "samples": self._samples.flush()}

    def discard_after(self, step: int | None, expected: Mapping[str, int]) -> None:
        """Remove what was reported after a step, since resumed training reports it again; None removes everything.

        Must be called before anything is reported. Warns if there are fewer lines than ``expected``, the result of
        :meth:`flush`.
        """
        for name, lines in (("metrics", self._metrics), ("samples", self._samples)):
            missing = expected.get(name, 0) - lines.discard_after(step)
            if missing > 0:
                self.log(
                    f"warning: {missing} lines of {name}.jsonl are missing or damaged and cannot be restored; "
                    "training itself is not affected"
                )
        self._discard_events_after(step)
        with file_errors_as_os_error(self._folder):
            self._tensorboard = tf.summary.create_file_writer(str(self._folder))

    def _discard_events_after(self, step: int | None) -> None:
        """Remove later numbers from the files of TensorBoard, which would show these steps twice."""
        for path in self._folder.glob("*tfevents*"):
            if step is None:
                path.unlink()
            elif any(event.step > step for event in EventFileLoader(str(path)).Load()):
                with atomic_write(path, "wb") as file:
                    writer = RecordWriter(file)
                    for event in EventFileLoader(str(path)).Load():
                        if event.step <= step:
                            writer.write(event.SerializeToString())

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
        corpus = pluralize(result.tokens, "token") if result.samples is None else pluralize(result.samples, "sample")
        self.log(
            f"validation at step {step:,}: loss {result.loss:.3f} nats{bits} per token, perplexity "
            f"{result.perplexity:.1f} on {corpus}{'' if bleu is None else f', BLEU {bleu:.2f},'} in "
            f"{format_duration(seconds)}" + (" (best so far)" if best else "")
        )

    def log_reply(self, step: int, reply: SampleReply) -> None:
        """Report the model's reply to an utterance."""
        self._samples.append({"step": step, **reply._asdict()})
        source, text = (text.replace("\n", "↵") for text in (reply.source, reply.reply))
        self.log(f"  {source}\n    → {text}")

    def _write_scalars(self, step: int, values: dict[str, float]) -> None:
        """Write numbers for TensorBoard by one operation, as ``tf.summary.scalar`` leaks memory with each number."""
        with np.errstate(over="ignore"):  # beyond float32 they become infinite
            summary = b"".join(scalar_pb(name, value).SerializeToString() for name, value in values.items())
        with file_errors_as_os_error(self._folder), self._tensorboard.as_default(step=np.int64(step)):
            call_with_arrays(tf.summary.experimental.write_raw_pb, np.array(summary, object))
