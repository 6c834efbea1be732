"""Draw the losses of one run or several side by side, as training (thin) and validation (dots) went.

python scripts/plot_learning_curves.py latest --output curves.png
"""

from __future__ import annotations

from typing import Any

import click
import matplotlib as mpl

from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run, find_run
from seq2seq_chat.training.metrics import read_json_lines

mpl.use("Agg")
from matplotlib import pyplot as plt


@click.command()
@click.argument("runs", nargs=-1, required=True)
@click.option("--results", default="results", show_default=True, help="Where runs are.")
@click.option("--output", default="learning_curves.png", show_default=True, type=click.Path(dir_okay=False))
@click.option("--by-time", is_flag=True, help="Over minutes of training instead of steps.")
def main(runs: tuple[str, ...], results: str, output: str, by_time: bool) -> None:
    """Write one picture with the learning curves of RUNS, and print each run's best validation loss."""
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    try:
        for number, name in enumerate(runs):
            draw(axes, find_run(name, results), f"C{number}", by_time)
    except UserError as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(2) from error
    axes.set(xlabel="minutes of training" if by_time else "step", ylabel="loss, nats per target token")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(output, dpi=120)
    click.echo(f"written: {output}")


def draw(axes: Any, run: Run, color: str, by_time: bool) -> None:
    """Add a run's curves to a picture. Raises UserError where there is nothing to draw."""
    lines = [line for line in read_json_lines(run.metrics_file) if line.get("loss") is not None]
    kinds = {kind: [line for line in lines if line.get("kind") == kind] for kind in ("train", "validation")}
    if not kinds["train"]:
        raise UserError(f"run {run.name} has no metrics to draw yet; they come every training.log_every steps")
    minutes, elapsed = {}, 0.0
    for line in kinds["train"]:
        elapsed += line["seconds"] / 60
        minutes[line["step"]] = elapsed

    def place(line: dict[str, Any]) -> float:
        return minutes.get(line["step"], elapsed) if by_time else line["step"]

    def curve(kind: str) -> tuple[list[float], list[float]]:
        return [place(line) for line in kinds[kind]], [line["loss"] for line in kinds[kind]]

    label = f"{run.config.name}, {run.config.training.precision}"
    axes.plot(*curve("train"), color=color, linewidth=0.8, alpha=0.6, label=f"{label}: training")
    if kinds["validation"]:
        axes.plot(*curve("validation"), color=color, marker="o", linewidth=1.5, label=f"{label}: validation")
        best = min(kinds["validation"], key=lambda line: line["loss"])
        click.echo(f"{run.name}: best validation loss {best['loss']:.4f} at step {best['step']:,}")


if __name__ == "__main__":
    main()
