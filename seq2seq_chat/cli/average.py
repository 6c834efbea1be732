"""`seq2seq-chat average`."""

from __future__ import annotations

from pathlib import Path

import click

from seq2seq_chat.cli.options import ensure_trained, results_option, run_argument


@click.command()
@run_argument
@click.option("--last", type=click.IntRange(2), metavar="N", help="The N newest weights.  [default: all]")
@click.option("--best", type=click.IntRange(2), metavar="N", help="The N weights with the lowest validation loss.")
@click.option("--output", required=True, metavar="NAME", help="Name of the new run, or a folder with a slash.")
@results_option
def average(run_name: str, last: int | None, best: int | None, output: str, results: str) -> None:
    """Average the weights of several checkpoints and snapshots of RUN.

    The mean of weights from the end of a training is often better than the best of them. It becomes a run of its own,
    which can be used like any other, but not trained further.
    """
    from seq2seq_chat.checkpoint.arrays import average_weights, steps_to_average
    from seq2seq_chat.runs.find import find_run

    if last is not None and best is not None:
        raise click.UsageError("--last and --best exclude each other")
    run = find_run(run_name, results)
    ensure_trained(run, "average")
    steps = steps_to_average(run, last, best)
    averaged = average_weights(run, steps, Path(output) if "/" in output else Path(results, output))
    click.echo(f"averaged {len(steps)} weights of {run.name}, of steps {', '.join(f'{step:,}' for step in steps)}")
    click.echo(averaged.path)
