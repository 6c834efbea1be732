#!/usr/bin/env python3
"""Run the benchmarks of docs/speed.md one after the other, and write all results to one JSON file.

Each is a script of its own, and prints its table; see its --help. Benchmarks of a trained model need --run, for example
`--run latest` after ./run.sh. Run nothing else at the same time.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.hardware import available_cores, processor_name

SCRIPTS = Path(__file__).resolve().parent
PACKAGES = ["seq2seq-chat", "tensorflow", "tensorflow-addons", "numpy", "torch"]
RUN = "RUN"  # replaced by the name of the trained run
BENCHMARKS: Mapping[str, Sequence[str]] = {
    **{f"training-{size}": ["benchmark_training.py", "--size", size] for size in ("small", "medium", "thesis")},
    **{f"decoding-{size}": ["benchmark_decoding.py", "--size", size] for size in ("small", "medium", "thesis")},
    "building": ["benchmark_building.py", "configs/quickstart.json"],
    "language-model": ["benchmark_language_model.py"],
    "language-model-shakespeare": ["benchmark_language_model.py", "--size", "shakespeare"],
    "generation": ["benchmark_generation.py"],
    "serving": ["benchmark_serving.py", RUN],
    "two-workers": ["benchmark_distribution.py", "configs/thesis_reddit.json"],
    "checkpoints": ["benchmark_checkpoints.py", "configs/quickstart.json"],
}


@click.command(help=__doc__)
@click.option("--only", multiple=True, type=click.Choice(list(BENCHMARKS)), help="one of the benchmarks; repeatable")
@click.option("--run", "run_name", help="a trained run, for the benchmarks that need one")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), required=True, help="write the results here"
)
def main(only: Sequence[str], run_name: str | None, json_file: Path) -> None:
    """Run the benchmarks and write the results after each."""
    names = [name for name in BENCHMARKS if not only or name in only]
    without_run = [name for name in names if RUN in BENCHMARKS[name] and run_name is None]
    if without_run and only:
        raise click.UsageError(f"{', '.join(without_run)}: add --run NAME, a trained run")
    for name in without_run:
        click.echo(f"skipped: {name} (without --run)", err=True)
    results: dict[str, Any] = {"machine": describe_machine(), "benchmarks": {}}
    failed = []
    for name in tqdm([name for name in names if name not in without_run], unit="benchmark", disable=None):
        click.echo(f"\n{name}\n")
        start = time.monotonic()
        result = run_benchmark([run_name or "" if part == RUN else part for part in BENCHMARKS[name]])
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
        paths = [str(SCRIPTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        full = [sys.executable, str(SCRIPTS / script), *arguments, "--json", str(path)]
        status = subprocess.run(full, check=False, env=environment).returncode
        return json.loads(path.read_text(encoding="utf-8")) if status == 0 else None


def describe_machine() -> dict[str, Any]:
    """What the results depend on: the date, the processor, and the versions of the packages."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "processor": processor_name(),
        "cores": available_cores(),
        "memory GB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
    }


if __name__ == "__main__":
    run_command(main)
