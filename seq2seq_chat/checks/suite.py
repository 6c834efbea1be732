"""All checks, cheapest first, and how they are run and reported."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.checks.copy_task import check_copy_task
from seq2seq_chat.checks.data import check_data
from seq2seq_chat.checks.decoding import check_decoding
from seq2seq_chat.checks.gradients import check_gradients
from seq2seq_chat.checks.initial_loss import check_initial_loss
from seq2seq_chat.checks.memory import check_memory
from seq2seq_chat.checks.overfitting import check_overfitting
from seq2seq_chat.checks.padding import check_padding
from seq2seq_chat.checks.save_and_load import check_save_and_load
from seq2seq_chat.checks.subject import Finding, Progress, Subject
from seq2seq_chat.environment import make_deterministic
from seq2seq_chat.errors import UserError
from seq2seq_chat.training.console import duration

CHECKS: dict[str, Callable[[Subject, Progress], Finding]] = {
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


class Verdict(NamedTuple):
    """A finding, whose it is, and what it took."""

    check: str
    finding: Finding
    seconds: float


def run_checks(subject: Subject, only: Sequence[str] = ()) -> list[Verdict]:
    """Run the checks, or those named, in their order, and print what they find.

    From here on this process computes deterministically: the checks compare bits.
    """
    make_deterministic(subject.config.seed)
    verdicts = []
    for name, check in CHECKS.items():
        if only and name not in only:
            continue
        line = _Line(name)
        begun = time.monotonic()
        try:
            finding = check(subject, line.progress)
        except UserError as error:
            finding = Finding(False, "could not be checked", "-", str(error))
        verdicts.append(Verdict(name, finding, time.monotonic() - begun))
        line.end(verdicts[-1])
    return verdicts


def summary(verdicts: Sequence[Verdict]) -> str:
    """A table of what passed and what did not."""
    rows = [("check", "verdict", "found", "must be", "time")]
    rows += [(v.check, _word(v.finding), v.finding.figure, v.finding.threshold, duration(v.seconds)) for v in verdicts]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    failed = [v.check for v in verdicts if not v.finding.passed]
    total = duration(sum(v.seconds for v in verdicts))
    end = f"{len(failed)} of {len(verdicts)} checks failed: {', '.join(failed)}" if failed else "all checks passed"
    return "\n".join([*lines, f"{end}, in {total}"])


def write_verdicts(verdicts: Sequence[Verdict], path: Path) -> None:
    """The same for programs."""
    found = [
        {"check": v.check, **v.finding._asdict(), "passed": bool(v.finding.passed), "seconds": round(v.seconds, 1)}
        for v in verdicts
    ]
    passed = all(v.finding.passed for v in verdicts)
    with atomic_write(path) as file:
        file.write(json.dumps({"passed": passed, "checks": found}, indent=2) + "\n")


def tidy(folder: Path) -> None:
    """Keep verdicts and pictures; corpora and runs that the checks made are of no further use."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.suffix not in (".json", ".png"):
            entry.unlink()


def _word(finding: Finding) -> str:
    return "passed" if finding.passed else "FAILED"


class _Line:
    """The line of a check while it runs; on a terminal it is written over again and again."""

    def __init__(self, name: str) -> None:
        self._name, self._shown = name, ""
        self._seen = sys.stderr.isatty()
        self.progress("…")

    def progress(self, text: str) -> None:
        """Show how far the check is."""
        if not self._seen:
            return
        line = f"{self._name}: {text}"[:100]
        print("\r" + line.ljust(len(self._shown)), end="", file=sys.stderr, flush=True)
        self._shown = line

    def end(self, verdict: Verdict) -> None:
        """Put the verdict where the progress was."""
        if self._seen:
            print("\r" + " " * len(self._shown) + "\r", end="", file=sys.stderr, flush=True)
        finding = verdict.finding
        print(f"{_word(finding)}  {self._name}: {finding.figure} (must be: {finding.threshold})", flush=True)
        if finding.detail:
            print(f"        {finding.detail}", flush=True)
