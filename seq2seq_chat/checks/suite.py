"""All checks, fastest first, and how they are run and reported."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.checks.copy_task import check_copy_task
from seq2seq_chat.checks.data import check_data
from seq2seq_chat.checks.decoding import check_decoding
from seq2seq_chat.checks.gradients import check_gradients
from seq2seq_chat.checks.initial_loss import check_initial_loss
from seq2seq_chat.checks.memory import check_memory
from seq2seq_chat.checks.overfitting import check_overfitting
from seq2seq_chat.checks.padding import check_padding
from seq2seq_chat.checks.save_and_load import check_save_and_load
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.system.versions import make_deterministic
from seq2seq_chat.training.console import format_duration

CHECKS: dict[str, Callable[[CheckContext, OnProgress], CheckResult]] = {
    "data": check_data,
    "memory": check_memory,
    "initial-loss": check_initial_loss,
    "gradients": check_gradients,
    "padding": check_padding,
    "save-and-load": check_save_and_load,
    "decoding": check_decoding,
    "overfitting": check_overfitting,
    "copy-task": check_copy_task,
}


class CompletedCheck(NamedTuple):
    """A check that has run."""

    name: str
    result: CheckResult
    seconds: float

    @property
    def status(self) -> str:
        """ "passed" or "FAILED"."""
        return "passed" if self.result.passed else "FAILED"


def run_checks(context: CheckContext, only: Sequence[str] = ()) -> list[CompletedCheck]:
    """Run all checks, or those named, in their order, and print the results.

    The process computes deterministically from here on, as some checks compare bit for bit.
    """
    make_deterministic(context.config.seed)
    completed = []
    for name, check in CHECKS.items():
        if only and name not in only:
            continue
        status_line = _StatusLine(name)
        start = time.monotonic()
        try:
            result = check(context, status_line.update)
        except UserError as error:
            result = CheckResult(False, "could not be run", "-", str(error))
        completed.append(CompletedCheck(name, result, time.monotonic() - start))
        status_line.clear()
        print_check(completed[-1])
    return completed


def print_check(check: CompletedCheck) -> None:
    """Print a result and its detail."""
    print(f"{check.status}  {check.name}: {check.result.measured} (must be: {check.result.required})", flush=True)
    if check.result.detail:
        print(f"        {check.result.detail}", flush=True)


def summary(checks: Sequence[CompletedCheck]) -> str:
    """A table of the results."""
    rows = [("check", "result", "measured", "must be", "time")]
    rows += [(c.name, c.status, c.result.measured, c.result.required, format_duration(c.seconds)) for c in checks]
    failed = [c.name for c in checks if not c.result.passed]
    end = f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}" if failed else "all checks passed"
    return f"{format_table(rows, style='ruled')}\n{end}, in {format_duration(sum(c.seconds for c in checks))}"


def write_results(checks: Sequence[CompletedCheck], path: Path) -> None:
    """Write the results as JSON; the web UI reads ``checks.json``, so its keys are fixed."""
    entries = [
        {
            "check": name,
            "passed": bool(result.passed),
            "figure": result.measured,
            "threshold": result.required,
            "detail": result.detail,
            "curve": result.curve,
            "seconds": round(seconds, 1),
        }
        for name, result, seconds in checks
    ]
    write_json(path, {"passed": all(entry["passed"] for entry in entries), "checks": entries})


def remove_temporary_files(folder: Path) -> None:
    """Delete the corpora and runs that the checks created; results and pictures remain."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.suffix not in (".json", ".png"):
            entry.unlink()


class _StatusLine:
    """The progress of a check on stderr, in a line that overwrites itself; nothing unless stderr is a terminal."""

    def __init__(self, name: str) -> None:
        self._name, self._width = name, 0
        self._enabled = sys.stderr.isatty()
        self.update("…")

    def update(self, text: str) -> None:
        """Show the progress."""
        self._write(f"{self._name}: {text}"[:100])

    def clear(self) -> None:
        """Erase the line."""
        self._write("")
        if self._enabled:
            print("\r", end="", file=sys.stderr, flush=True)

    def _write(self, line: str) -> None:
        if self._enabled:
            print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
            self._width = len(line)
