"""Progress of a training for a person: a progress bar on a terminal, plain lines elsewhere, all lines in a log file."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

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
        self._graph_steps, self._graph_seconds = 0, 0.0  # steps that built a graph, and how long they took
        self._metrics = ""

    def log(self, text: str) -> None:
        """Print a line and append it to the log file."""
        if self._bar is not None:
            self._bar.clear()
        try:
            print(text, flush=True)
        except OSError as error:  # the reader of a pipeline has ended, or a disk is full: no reason to stop a training
            self._report_failed_stdout(error)
        if self._bar is not None:
            self._bar.refresh()
        self._append(text)

    def _report_failed_stdout(self, error: OSError) -> None:
        """Warn, once."""
        if not self._stdout_failed:
            self._stdout_failed = True
            place = f", see {self._log_file}" if self._log_file else ""
            logger.warning("could not write the output: %s; the training continues%s", error.strerror, place)

    def _append(self, text: str) -> None:
        if self._log_file is None:
            return
        with open(self._log_file, "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def start_progress(self, step: int, steps: int) -> None:
        """Start the progress bar at ``step`` of ``steps``. The first step builds the graph, which takes a while."""
        self.log("building the graph…")
        self._start, self._first_step, self._steps = time.monotonic(), step, steps
        self._graph_steps, self._graph_seconds = 0, 0.0
        if sys.stderr.isatty():
            self._bar = tqdm(total=steps, initial=step, dynamic_ncols=True, bar_format=_BAR_FORMAT)

    def advance(self, step: int, meter: Meter, graph_seconds: float = 0.0) -> None:
        """Update the progress bar after a step.

        Args:
            step: number of steps done.
            meter: the metrics since the last line.
            graph_seconds: how long the step took if it built a graph, else 0; the estimate of the time left ignores it.
        """
        self._graph_steps += graph_seconds > 0
        self._graph_seconds += graph_seconds
        if self._bar is None:
            return
        if step % 10 == 0:
            sums = meter.sums()
            if sums["tokens"]:
                line = meter.line(step)
                rate = sums["tokens"] / max(sums["seconds"], 1e-9)
                self._metrics = f", loss {line['loss']:.3f}, perplexity {line['perplexity']:.1f}, {rate:,.0f} tokens/s"
        self._bar.set_postfix_str(self._time_left(step) + self._metrics, refresh=False)
        self._bar.update()

    def log_metrics(self, line: dict[str, Any]) -> None:
        """Report training metrics; on the terminal the progress bar shows them, if there is one."""
        loss = "sampled loss" if line["softmax"] == "sampled" else "loss"
        text = (
            f"step {line['step']:,} of {self._steps:,}: "
            f"{loss} {line['loss']:.3f}, perplexity {line['perplexity']:.1f}, "
            f"{line['tokens'] / max(line['seconds'], 1e-9):,.0f} target tokens/s, {self._time_left(line['step'])}"
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
        done = step - self._first_step - self._graph_steps
        if not done:
            return "time left unknown"
        seconds = (time.monotonic() - self._start - self._graph_seconds) / done * (self._steps - step)
        return f"{format_duration(seconds)} left"


def format_duration(seconds: float) -> str:
    """3725 → "1:02:05"; longer than two days → "12.3 days"."""
    if seconds > 172_800:
        return f"{seconds / 86_400:.1f} days"
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"
