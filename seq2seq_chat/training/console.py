"""Training progress: a progress bar on a terminal, plain lines elsewhere, and a log file."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from seq2seq_chat.training.metrics import Meter

logger = logging.getLogger(__name__)

_BAR_FORMAT = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} steps [{elapsed}{postfix}]"


class Console:
    """Prints lines above a progress bar, and appends them to a log file, if there is one."""

    def __init__(self, log_file: Path | None = None) -> None:
        self._log_file = log_file
        self._bar: Any | None = None
        self._stdout_failed = False
        self._start = time.monotonic()
        self._first_step = self._steps = 0
        self._tracing_steps, self._tracing_seconds = 0, 0.0  # steps that traced a graph, and how long they took
        self._metrics_text = ""

    def log(self, text: str) -> None:
        """Print a line and append it to the log file."""
        if self._bar is not None:
            self._bar.clear()
        try:
            print(text, flush=True)
        except OSError as error:  # a closed pipe or a full disk must not stop training
            self._warn_once_about_stdout(error)
        if self._bar is not None:
            self._bar.refresh()
        self._append(text)

    def _warn_once_about_stdout(self, error: OSError) -> None:
        if not self._stdout_failed:
            self._stdout_failed = True
            hint = f", see {self._log_file}" if self._log_file else ""
            logger.warning("could not write the output: %s; training continues%s", error.strerror, hint)

    def _append(self, text: str) -> None:
        if self._log_file is None:
            return
        with open(self._log_file, "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def start_progress(self, step: int, steps: int) -> None:
        """Start the progress bar at ``step`` of ``steps``."""
        self.log("building the graph…")
        self._start, self._first_step, self._steps = time.monotonic(), step, steps
        self._tracing_steps, self._tracing_seconds = 0, 0.0
        if sys.stderr.isatty() and _has_size(sys.stderr):
            self._bar = tqdm(total=steps, initial=step, dynamic_ncols=True, bar_format=_BAR_FORMAT)

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
            f"step {metrics['step']:,} of {self._steps:,}: "
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
        if not timed_steps:
            return "time left unknown"
        seconds = (time.monotonic() - self._start - self._tracing_seconds) / timed_steps * (self._steps - step)
        return f"{format_duration(seconds)} left"


def _has_size(terminal: IO[str]) -> bool:
    """Whether a terminal has a size; in one without, such as that of ``docker run -t`` in a script, a bar is empty."""
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
