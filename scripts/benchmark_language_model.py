#!/usr/bin/env python3
"""Time a training step of a language model here and with PyTorch's nn.LSTM: the same weights, batches and optimizer.

Each contender runs in its own process. They take turns step by step, so that a slow phase of the machine affects all
of them. The results are medians. Run nothing else at the same time.
"""

from __future__ import annotations

import importlib.util
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import click
from contenders.table import json_option, print_table
from contenders.text_workload import TEXT_SIZES
from contenders.worker import Contender, Worker
from contenders.workload import PEAK_FLOP, write_workload_in_subprocess
from tqdm import tqdm

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.system.files import write_json
from seq2seq_chat.training.precision import why_unavailable

WARM_UP = 2  # steps
TOLERANCE = {"float32": 2e-3, "bfloat16": 1e-2}  # relative, of the losses of the first two steps
COLUMNS = ["contender", "ms", "tokens/s", "GFLOP/s", "% of peak", "GB", "loss", "ours is"]


@click.command(help=__doc__)
@click.option("--size", type=click.Choice(list(TEXT_SIZES)), default="quick", show_default=True)
@click.option("--steps", type=click.IntRange(1), default=15, show_default=True, help="steps to time")
@json_option
def main(size: str, steps: int, json_file: Path | None) -> None:
    """Run the contenders and print the results."""
    precisions = [name for name in ("float32", "bfloat16") if why_unavailable(name) is None]
    has_torch = importlib.util.find_spec("torch") is not None
    if not has_torch:
        click.echo("skipped: PyTorch (torch is not installed)", err=True)
    systems = {"ours": "text_ours", **({"PyTorch nn.LSTM": "text_pytorch"} if has_torch else {})}
    contenders = [
        Contender(f"{name}, {precision}", module, {"size": size, "precision": precision})
        for precision in precisions
        for name, module in systems.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        write_workload_in_subprocess(Path(folder), "tiny", 1)  # which every worker reads; sizes are those of --size
        rows = measure(contenders, precisions, Path(folder), size, steps)
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"size": size, **TEXT_SIZES[size]._asdict(), "steps": steps, "contenders": rows})
    for row in rows:
        pairs = zip(row["first losses"], rows[0]["first losses"], strict=True)
        if any(abs(loss / expected - 1) > TOLERANCE[row["precision"]] for loss, expected in pairs):
            raise click.ClickException(f"the first losses of {row['contender']} differ from ours in float32")


def measure(
    contenders: list[Contender], precisions: list[str], folder: Path, size: str, steps: int
) -> list[dict[str, Any]]:
    """Time contenders in turns; one row each."""
    with ExitStack() as stack, tqdm(total=(steps + WARM_UP) * len(contenders), unit="step", disable=None) as bar:
        peaks = {
            precision: stack.enter_context(
                Worker(Contender(f"peak, {precision}", "peak", {"precision": precision}), "TrainingStep", folder)
            )
            for precision in precisions
        }
        workers = [stack.enter_context(Worker(contender, "TextStep", folder)) for contender in contenders]
        everyone = [*workers, *peaks.values()]
        seconds: dict[str, list[float]] = {worker.contender.label: [] for worker in everyone}
        losses: dict[str, list[float]] = {worker.contender.label: [] for worker in everyone}
        for number in range(steps + WARM_UP):
            for worker in everyone:
                label = worker.contender.label
                bar.set_description(label)
                if number < WARM_UP:
                    losses[label].append(worker.call("step", number))
                else:
                    seconds[label].append(worker.time_call("step", number))
                bar.update(worker in workers)
        memory = {worker.contender.label: worker.peak_memory() for worker in workers}
    text, rows = TEXT_SIZES[size], []
    medians = {label: median(times) for label, times in seconds.items()}
    for contender in contenders:
        label, precision = contender.label, contender.arguments["precision"]
        time = medians[label]
        rows.append(
            {
                "contender": label,
                "precision": precision,
                "ms": 1e3 * time,
                "tokens/s": text.streams * text.steps / time,
                "GFLOP/s": text.step_flop() / time / 1e9,
                "% of peak": 100 * text.step_flop() / time / (PEAK_FLOP / medians[f"peak, {precision}"]),
                "GB": memory[label] / 1e9,
                "loss": losses[label][0],
                "ours is": time / medians[f"ours, {precision}"],
                "first losses": losses[label],
                "seconds": seconds[label],
            }
        )
    return rows


if __name__ == "__main__":
    run_command(main)
