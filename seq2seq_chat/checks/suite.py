"""All checks, fastest first; running and reporting them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.checks.gradients import check_gradients
from seq2seq_chat.checks.invariants import (
    check_carried_state,
    check_data,
    check_decoding,
    check_initial_loss,
    check_memory,
    check_padding,
)
from seq2seq_chat.checks.learning import check_learning
from seq2seq_chat.checks.reply_tasks import check_alignment, check_copy_task, check_overfitting
from seq2seq_chat.checks.save_and_load import check_save_and_load
from seq2seq_chat.config import Config
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.system.versions import make_deterministic
from seq2seq_chat.training.reporter import format_duration

_SMALL = "sizes, vocabulary, corpus"
_ADAM = "optimizer, learning rate, schedule, batch size"


class Check(NamedTuple):
    """A check, and what it replaces of the configuration."""

    run: Callable[[CheckContext, OnProgress], CheckResult]
    replaced: str


CHECKS = {
    "data": Check(check_data, "nothing"),
    "memory": Check(check_memory, "nothing"),
    "initial-loss": Check(check_initial_loss, _SMALL),
    "gradients": Check(check_gradients, f"{_SMALL}; optimizer, learning rate, clipping, batch size"),
    "padding": Check(check_padding, _SMALL),
    "carried-state": Check(check_carried_state, f"{_SMALL}; softmax, precision, dropout, batch size"),
    "save-and-load": Check(check_save_and_load, f"{_SMALL}; batch size"),
    "decoding": Check(check_decoding, f"{_SMALL}; decoding"),
    "learning": Check(check_learning, "number of steps, devices, pretrained embeddings"),
    "alignment": Check(check_alignment, f"{_SMALL}; {_ADAM}, softmax, dropout, noise"),
    "overfitting": Check(check_overfitting, f"sizes, vocabulary; {_ADAM}, dropout"),
    "copy-task": Check(check_copy_task, f"{_SMALL}; {_ADAM}, softmax, dropout"),
}
NOT_OF_TEXTS, OF_TEXTS_ONLY = ("padding", "decoding", "alignment", "copy-task"), ("carried-state",)
TABLE_WIDTH = 80


def checks_of(config: Config) -> dict[str, Check]:
    """The checks that apply to a configuration."""
    inapplicable = NOT_OF_TEXTS if config.task == "language_model" else OF_TEXTS_ONLY
    return {name: check for name, check in CHECKS.items() if name not in inapplicable}


class CompletedCheck(NamedTuple):
    name: str
    result: CheckResult
    seconds: float
    replaced: str  # of the configuration

    @property
    def status(self) -> str:
        """The printed word: passed or FAILED."""
        return "passed" if self.result.passed else "FAILED"


def ensure_checks_exist(names: Sequence[str], config: Config) -> None:
    """Raise UserError if there is no check of one of these names for the configuration's task."""
    checks = checks_of(config)
    unknown = [name for name in names if name not in checks]
    if unknown:
        task = f" for task {config.task}" if unknown[0] in CHECKS else ""
        raise UserError(f"--only {unknown[0]}: no such check{task}; choose from {', '.join(checks)}")


def run_checks(context: CheckContext, only: Sequence[str] = ()) -> list[CompletedCheck]:
    """Run all checks, or the named ones, and print the results.

    Makes the process deterministic, because some checks compare bit for bit.
    """
    make_deterministic(context.config.seed)
    completed = []
    for name, check in checks_of(context.config).items():
        if not only or name in only:
            completed.append(_run_check(name, check, context))
            print_check(completed[-1])
    return completed


def _run_check(name: str, check: Check, context: CheckContext) -> CompletedCheck:
    """Run a check, and show its progress if stderr is a terminal."""
    start = time.monotonic()
    with tqdm(desc=f"{name}: …", bar_format="{desc}", leave=False, disable=None) as bar:
        try:
            result = check.run(context, lambda text: bar.set_description_str(f"{name}: {text}"[:100]))
        except UserError as error:
            result = CheckResult(False, "could not run", "-", str(error))
    return CompletedCheck(name, result, time.monotonic() - start, result.replaced or check.replaced)


def print_check(check: CompletedCheck) -> None:
    print(f"{check.status}  {check.name}: {check.result.measured} (required: {check.result.required})", flush=True)
    if check.result.detail:
        print(f"        {check.result.detail}", flush=True)
    print(f"        replaced: {check.replaced}", flush=True)
    if check.result.remedy:
        print(f"        this helps:\n{check.result.remedy}", flush=True)


def summary(checks: Sequence[CompletedCheck]) -> str:
    """A table of the results, of at most ``TABLE_WIDTH`` columns; what does not fit is printed with each check."""
    rows = [("check", "result", "time", "measured")]
    rows += [(c.name, c.status, format_duration(c.seconds), c.result.measured) for c in checks]
    width = TABLE_WIDTH - sum(max(map(len, column)) + 2 for column in list(zip(*rows, strict=True))[:3])
    rows = [(*row[:3], row[3] if len(row[3]) <= width else row[3][: width - 1] + "…") for row in rows]
    failed = [c.name for c in checks if not c.result.passed]
    verdict = f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}" if failed else "all checks passed"
    return f"{format_table(rows, style='ruled')}\n{verdict}, in {format_duration(sum(c.seconds for c in checks))}"


def write_results(checks: Sequence[CompletedCheck], path: Path) -> None:
    """Write the results as JSON; the web UI reads the keys of ``checks.json``."""
    entries = [
        {
            "check": check.name,
            "passed": bool(check.result.passed),
            "figure": check.result.measured,
            "threshold": check.result.required,
            "detail": check.result.detail,
            "curve": check.result.curve,
            "seconds": round(check.seconds, 1),
            "replaced": check.replaced,
            "remedy": check.result.remedy,
        }
        for check in checks
    ]
    write_json(path, {"passed": all(entry["passed"] for entry in entries), "checks": entries})


def remove_temporary_files(folder: Path) -> None:
    """Delete the corpora and runs of the checks, and keep results and figures."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.suffix not in (".json", ".png"):
            entry.unlink()
