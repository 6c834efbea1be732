#!/usr/bin/env python3
"""Run all benchmarks of docs/speed.md one after the other, and write all results to one JSON file.

Each is a script of its own, and prints its table; see its --help. Those whose inputs are not given are left out.
Together they take 40 minutes to hours, and leave several gigabytes of generated corpora in benchmark_prepare/.
Run nothing else at the same time.

python scripts/benchmark_all.py --run latest --pairs data/fra --json results.json
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import click
from contenders import SCRIPTS, environment
from tqdm import tqdm

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.versions import describe_environment

INPUTS = {
    "run": "--run NAME, a trained run",
    "pairs": "--pairs DIR, with train.tsv, validation.tsv and test.tsv",
}
SPLITS = ("train", "validation", "test")
STREAMING = ["--clients", "200", "--utterances", "4000", "--burst", "200", "--distinct", "200", "--stream"]
BENCHMARKS: Mapping[str, Sequence[str]] = {
    **{f"training-{size}": ["benchmark_training.py", "--size", size] for size in ("small", "medium", "thesis")},
    **{f"decoding-{size}": ["benchmark_decoding.py", "--size", size] for size in ("small", "medium")},
    "decoding-thesis": ["benchmark_decoding.py", "--size", "thesis", "--calls", "3"],
    "language-model": ["benchmark_language_model.py"],
    "language-model-shakespeare": ["benchmark_language_model.py", "--size", "shakespeare"],
    "generation": ["benchmark_language_model.py", "--generate"],
    "serving": ["benchmark_serving.py", "{run}"],
    "streaming": ["benchmark_serving.py", "{run}", *STREAMING],
    "translation": ["benchmark_translation.py", *(f"{{pairs}}/{split}.tsv" for split in SPLITS)],
    "prepare": ["benchmark_prepare.py"],
    "prepare-all-subreddits": ["benchmark_prepare.py", "--opensubtitles-mb", "0", "--all-subreddits"],
}
"""The scripts and their arguments, with the names of inputs in braces."""


@click.command(help=__doc__)
@click.option("--only", multiple=True, type=click.Choice(list(BENCHMARKS)), help="one of the benchmarks; repeatable")
@click.option("--run", help="a trained run")
@click.option("--pairs", help="a folder with train.tsv, validation.tsv and test.tsv")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), required=True, help="write the results here"
)
def main(only: Sequence[str], json_file: Path, **inputs: str | None) -> None:
    """Run the benchmarks and write the results after each."""
    given = {name: value for name, value in inputs.items() if value is not None}
    commands: dict[str, list[str]] = {}
    for name in BENCHMARKS:
        if only and name not in only:
            continue
        try:
            commands[name] = [part.format(**given) for part in BENCHMARKS[name]]
        except KeyError as missing:
            message = f"{name}: add {INPUTS[missing.args[0]]}"
            if only:
                raise click.UsageError(message) from None
            click.echo(f"skipped {message}", err=True)
    results: dict[str, Any] = {"machine": describe_machine(), "benchmarks": {}}
    failed = []
    for name, command in tqdm(commands.items(), unit="benchmark", disable=None):
        click.echo(f"\n{name}\n")
        start = time.monotonic()
        result = run_benchmark(command)
        if result is None:
            failed.append(name)
            continue
        results["benchmarks"][name] = {"seconds": round(time.monotonic() - start), "results": result}
        write_json(json_file, results)
    if failed:
        raise click.ClickException(f"{', '.join(failed)} failed; see the messages above")


def run_benchmark(command: Sequence[str]) -> Any:
    """Run a script of this folder, which prints its table; returns what it writes, or None if it failed."""
    script, *arguments = command
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.json"
        full = [sys.executable, str(SCRIPTS / script), *arguments, "--json", str(path)]
        status = subprocess.run(full, check=False, env=environment()).returncode
        return json.loads(path.read_text(encoding="utf-8")) if status == 0 else None


def describe_machine() -> dict[str, Any]:
    """What the results depend on: the date, the machine, and the versions of the packages."""
    return describe_environment() | {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "memory GB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "torch": next((found.version for found in distributions(name="torch")), None),
    }


if __name__ == "__main__":
    run_command(main)
