#!/usr/bin/env python3
"""Time a training step of this system and of others with the same model, weights and batches.

Each contender runs in its own process. They take turns step by step, so that a slow phase of the machine affects all
of them. The results are medians. Run nothing else at the same time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click
from contenders import TOLERANCE, WARM_UP, Contender, json_option, print_table, time_steps
from contenders.workload import SIZES, write_workload_in_subprocess
from tqdm import tqdm

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.system.files import write_json

OURS = Contender("ours, float32", "contenders.ours", {})
OTHERS = {
    "ours, bfloat16": Contender("ours, bfloat16", "contenders.ours", {"precision": "bfloat16"}),
    "one micro-batch": Contender("ours, one micro-batch", "contenders.ours", {"micro_batches": 1}),
    "plain": Contender(
        "ours, plain automatic differentiation", "contenders.ours", {"micro_batches": 1, "deferred": False}
    ),
    "addons": Contender("Keras cells, addons decoder", "contenders.keras_addons", {}),
    "pytorch": Contender("PyTorch, float32", "contenders.pytorch", {}),
    "pytorch bfloat16": Contender("PyTorch, bfloat16 autocast", "contenders.pytorch", {"precision": "bfloat16"}),
}
# contenders that fit into 20 GB at the same time; ratios are within a group
GROUPS = {"thesis": [["ours, bfloat16", "pytorch", "pytorch bfloat16"], ["plain"], ["addons"]]}
STEPS = {"thesis": 5, "medium": 15, "small": 30, "tiny": 3}
COLUMNS = ["contender", "ms", "tokens/s", "GFLOP/s", "% of peak", "first step s", "GB", "loss", "ours is"]


@click.command(help=__doc__)
@click.option("--size", type=click.Choice(list(SIZES)), default="medium", show_default=True)
@click.option("--steps", type=click.IntRange(1), help="steps to time, after two to warm up")
@json_option
def main(size: str, steps: int | None, json_file: Path | None) -> None:
    """Run the contenders of a size and print the results."""
    steps, sizes = steps or STEPS[size], SIZES[size]
    reasons = {name: contender.unavailable_reason() for name, contender in OTHERS.items()}
    for name, reason in reasons.items():
        if reason:
            click.echo(f"skipped: {OTHERS[name].label} ({reason})", err=True)
    groups = [
        [OURS, *(OTHERS[name] for name in names if reasons[name] is None)] for names in GROUPS.get(size, [list(OTHERS)])
    ]
    rows: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        tqdm(total=sum(map(len, groups)) * (steps + WARM_UP), unit="step", disable=None) as bar,
    ):
        write_workload_in_subprocess(Path(folder), size, steps + WARM_UP)
        tokens, flop = sizes.batch * sizes.steps, sizes.step_flop()
        for group in groups:
            measured = time_steps(group, "TrainingStep", Path(folder), tokens, flop, steps, bar)
            rows += [row for row in measured if not any(row["contender"] == known["contender"] for known in rows)]
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"size": size, **sizes._asdict(), "steps": steps, "contenders": rows})
    wrong = [row["contender"] for row in rows if abs(row["loss"] / rows[0]["loss"] - 1) > TOLERANCE[row["precision"]]]
    if wrong:
        raise click.ClickException(f"the first loss of {', '.join(wrong)} differs from that of {OURS.label}")


if __name__ == "__main__":
    run_command(main)
