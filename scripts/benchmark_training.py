#!/usr/bin/env python3
"""Time a training step of this system and of others with the same model, weights and batches.

Each contender runs in its own process. They take turns step by step, so that a slow phase of the machine affects all
of them. The results are medians. Run nothing else at the same time.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import click
from contenders.table import json_option, print_table
from contenders.worker import Contender, Worker
from contenders.workload import PEAK_FLOP, SIZES, Size, write_workload_in_subprocess
from tqdm import tqdm

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.system.files import write_json
from seq2seq_chat.training.precision import why_unavailable

OURS = Contender("ours, float32", "ours", {})
OTHERS = {
    "ours, bfloat16": Contender("ours, bfloat16", "ours", {"precision": "bfloat16"}),
    "one micro-batch": Contender("ours, one micro-batch", "ours", {"micro_batches": 1}),
    "plain": Contender("ours, plain automatic differentiation", "ours", {"micro_batches": 1, "deferred": False}),
    "addons": Contender("Keras cells, addons decoder", "keras_addons", {}),
    "pytorch": Contender("PyTorch, float32", "pytorch", {}),
    "pytorch bfloat16": Contender("PyTorch, bfloat16 autocast", "pytorch", {"precision": "bfloat16"}),
}
# contenders that fit into 20 GB at the same time; ratios are within a group
GROUPS = {"thesis": [["ours, bfloat16", "pytorch", "pytorch bfloat16"], ["plain"], ["addons"]]}
STEPS = {"thesis": 5, "medium": 15, "small": 30, "tiny": 3}
TOLERANCE = {"float32": 2e-3, "bfloat16": 1e-2}  # relative, of losses; see the addons' contender


@click.command(help=__doc__)
@click.option("--size", type=click.Choice(list(SIZES)), default="medium", show_default=True)
@click.option("--steps", type=click.IntRange(1), help="steps to time, after two to warm up")
@json_option
def main(size: str, steps: int | None, json_file: Path | None) -> None:
    """Run the contenders of a size and print the results."""
    steps = steps or STEPS[size]
    groups = [
        [OURS, *(OTHERS[name] for name in names if unavailable_reason(OTHERS[name]) is None)]
        for names in GROUPS.get(size, [list(OTHERS)])
    ]
    for contender in OTHERS.values():
        if unavailable_reason(contender):
            click.echo(f"skipped: {contender.label} ({unavailable_reason(contender)})", err=True)
    rows: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        tqdm(total=sum(map(len, groups)) * (steps + 2), unit="step", disable=None) as bar,
    ):
        write_workload_in_subprocess(Path(folder), size, steps + 2)
        for group in groups:
            measured = measure(group, Path(folder), SIZES[size], steps, bar)
            rows += [row for row in measured if not any(row["contender"] == known["contender"] for known in rows)]
    print_table(rows, ["contender", "ms", "tokens/s", "GFLOP/s", "% of peak", "first step s", "GB", "loss", "ours is"])
    if json_file:
        write_json(json_file, {"size": size, **SIZES[size]._asdict(), "steps": steps, "contenders": rows})
    wrong = [row["contender"] for row in rows if abs(row["loss"] / rows[0]["loss"] - 1) > TOLERANCE[row["precision"]]]
    if wrong:
        raise click.ClickException(f"the first loss of {', '.join(wrong)} differs from that of {OURS.label}")


def unavailable_reason(contender: Contender) -> str | None:
    """Why a contender cannot run on this machine, or None."""
    if contender.module == "pytorch" and importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    return why_unavailable(contender.arguments.get("precision", "float32"))


def measure(group: Sequence[Contender], folder: Path, size: Size, steps: int, bar: Any) -> list[dict[str, Any]]:
    """Time contenders in turns; one row each."""
    precisions = sorted({contender.arguments.get("precision", "float32") for contender in group})
    peaks = [Contender(f"peak, {kind}", "peak", {"precision": kind}) for kind in precisions]
    with ExitStack() as stack:
        workers, first_steps, losses = [], [], []
        for contender in [*peaks, *group]:
            worker = stack.enter_context(Worker(contender, "TrainingStep", folder))
            bar.set_description(f"{contender.label}: starting")
            losses.append(worker.call("step", 0))
            first_steps.append(worker.seconds_since_start())
            worker.call("step", 1)
            workers.append(worker)
            bar.update(2 * (contender in group))
        seconds: list[list[float]] = [[] for _ in workers]
        for number in range(2, steps + 2):
            for worker, times in zip(workers, seconds, strict=True):
                bar.set_description(worker.contender.label)
                times.append(worker.time_call("step", number))
                bar.update(worker.contender in group)
        memory = [worker.peak_memory() for worker in workers]
    medians = [median(times) for times in seconds]
    peak = {kind: PEAK_FLOP / time for kind, time in zip(precisions, medians, strict=False)}
    rows = []
    for index in range(len(peaks), len(workers)):
        contender, time = workers[index].contender, medians[index]
        kind = contender.arguments.get("precision", "float32")
        rows.append(
            {
                "contender": contender.label,
                "precision": kind,
                "ms": 1e3 * time,
                "tokens/s": size.batch * size.steps / time,
                "GFLOP/s": size.step_flop() / time / 1e9,
                "% of peak": 100 * size.step_flop() / time / peak[kind],
                "peak GFLOP/s": peak[kind] / 1e9,
                "first step s": first_steps[index],
                "GB": memory[index] / 1e9,
                "loss": losses[index],
                "seconds": seconds[index],
            }
        )
    ours = {row["precision"]: row["ms"] for row in reversed(rows) if row["contender"] in (OURS.label, "ours, bfloat16")}
    for row in rows:
        row["ours is"] = row["ms"] / ours.get(row["precision"], ours["float32"])
    return rows


if __name__ == "__main__":
    run_command(main)
