"""Draw training and validation loss and perplexity of one or several runs.

python scripts/plot_learning_curves.py latest --output curves.png
"""

from __future__ import annotations

import click
from picture_script import Pictures, picture_options, results_option

from seq2seq_chat.analysis.figures.curves import draw_curves, read_curves
from seq2seq_chat.cli.running import run_command
from seq2seq_chat.runs.find import distinct_names, find_run


@click.command(help=__doc__)
@click.argument("runs", nargs=-1, required=True)
@results_option
@picture_options
@click.option("--by-time", is_flag=True, help="Plot over minutes of training instead of steps.")
def main(runs: tuple[str, ...], results: str, pictures: Pictures, by_time: bool) -> None:
    """Draw the learning curves of RUNS in one figure, and print the best validation loss of each."""
    trained_runs = [find_run(name, results) for name in runs]
    curves = list(map(read_curves, trained_runs, distinct_names(trained_runs)))
    for run, curve in zip(trained_runs, curves, strict=True):
        validation = curve.validation
        if len(validation.losses):
            best = int(validation.losses.argmin())
            loss, step = validation.losses[best], int(validation.steps[best])
            click.echo(f"{run.name}: best validation loss {loss:.4f} at step {step:,}")
    pictures.write(draw_curves(curves, by_time), "learning_curves", main=True)


if __name__ == "__main__":
    run_command(main)
