"""What a person sees of a training: a progress bar on a terminal, plain lines elsewhere, the same lines in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any, Optional

from tqdm import tqdm

from seq2seq_chat.training.metrics import Meter


class Console:
    """Prints lines above a progress bar and keeps them in a file, where there is one."""

    def __init__(self, log_file: Optional[Path] = None) -> None:
        self._log_file = log_file
        self._bar: Optional[Any] = None
        self._begun = time.monotonic()
        self._first = self._steps = 0

    def say(self, text: str) -> None:
        """Print a line and log it."""
        if self._bar is not None:
            self._bar.clear()
        with contextlib.suppress(OSError):  # nobody reads it any more: no reason to stop a training
            print(text, flush=True)
        if self._bar is not None:
            self._bar.refresh()
        self._log(text)

    def _log(self, text: str) -> None:
        if self._log_file is None:
            return
        with open(self._log_file, "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def begin(self, step: int, steps: int) -> None:
        """Start the progress bar at ``step`` of ``steps``."""
        self._begun, self._first, self._steps = time.monotonic(), step, steps
        if sys.stderr.isatty():
            self._bar = tqdm(total=steps, initial=step, unit="step", dynamic_ncols=True, smoothing=0.05)

    def advance(self, step: int, meter: Meter) -> None:
        """One step is done."""
        if self._bar is None:
            return
        if step % 10 == 0:
            sums = meter.sums()
            if sums["tokens"]:
                line = meter.line(step)
                rate = sums["tokens"] / max(sums["seconds"], 1e-9)
                self._bar.set_postfix_str(
                    f"loss {line['loss']:.3f}, perplexity {line['perplexity']:.1f}, {rate:,.0f} tokens/s", refresh=False
                )
        self._bar.update()

    def training_line(self, line: dict[str, Any]) -> None:
        """Report the means of a stretch of training; the bar shows them where there is one."""
        loss = "sampled loss" if line["softmax"] == "sampled" else "loss"
        text = (
            f"step {line['step']:,} of {self._steps:,}: "
            f"{loss} {line['loss']:.3f}, perplexity {line['perplexity']:.1f}, "
            f"{line['tokens'] / max(line['seconds'], 1e-9):,.0f} target tokens/s, {self._left(line['step'])} left"
        )
        if self._bar is None:
            self.say(text)
        else:
            self._log(text)

    def end(self) -> None:
        """Take the progress bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _left(self, step: int) -> str:
        done = step - self._first
        return duration((time.monotonic() - self._begun) / max(done, 1) * (self._steps - step))


def duration(seconds: float) -> str:
    """3725 → "1:02:05"; longer than two days → "12.3 days"."""
    if seconds > 172_800:
        return f"{seconds / 86_400:.1f} days"
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"
