"""`seq2seq-chat experiments {list,new,compare}`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Optional

import click

from seq2seq_chat.cli.options import results_option
from seq2seq_chat.errors import UserError


@click.group()
def experiments() -> None:
    """Manage experiments: a table of runs, grids of configurations, runs side by side."""


@experiments.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for programs.")
@results_option
def list_experiments(as_json: bool, results: str) -> None:
    """A table of all runs, oldest first; trainings may be going on."""
    from seq2seq_chat.experiments import summarize
    from seq2seq_chat.runs import list_runs

    found = [summarize(run) for run in list_runs(results)]
    if as_json:
        for summary in found:
            click.echo(json.dumps(summary._asdict()))
        return
    if not found:
        click.echo(f"no run is below {results}", err=True)
        return
    rows = [("run", "state", "step", "of", "perplexity", "at step", "last change")]
    for one in found:
        best = "–" if one.best_perplexity is None else f"{one.best_perplexity:,.2f}"
        at = "–" if one.best_step is None else f"{one.best_step:,}"
        of = "–" if one.steps is None else f"{one.steps:,}"
        changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.changed))
        rows.append((one.name, one.state, f"{one.step:,}", of, best, at, changed))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:2], widths, strict=False)]
        right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        click.echo("  ".join([*left, *right]).rstrip())
    for one in found:
        if one.reason and one.state == "failed":
            click.echo(f"\n{one.name} failed: {one.reason}")


@experiments.command()
@click.argument("base", metavar="BASE")
@click.option("--grid", "axes", multiple=True, metavar="KEY=V,V…", help="A setting and its values; may be repeated.")
@click.option("--output", metavar="DIR", help="Where the configurations go.  [default: experiments/NAME]")
@click.option("--train", "trains", is_flag=True, help="Train them one after another; go on where that was stopped.")
@results_option
def new(base: str, axes: tuple[str, ...], output: Optional[str], trains: bool, results: str) -> None:
    """Write a configuration for each combination of values, starting from BASE, a configuration.

    \b
    seq2seq-chat experiments new configs/quickstart.json \\
        --grid model.hidden_size=128,256 --grid training.learning_rate=0.001,0.003 --train
    """
    from seq2seq_chat.config import Config, load_config
    from seq2seq_chat.experiments import summarize
    from seq2seq_chat.grid import new_experiments, parse_axis, train_all
    from seq2seq_chat.runs import Run

    if not axes:
        raise UserError("a grid needs at least one setting; write --grid model.hidden_size=256,512")
    folder = output or Path("experiments", load_config(base).name)
    made = new_experiments(base, [parse_axis(axis) for axis in axes], folder)
    for path, _ in made:
        click.echo(path)
    if not trains:
        return

    def is_finished(run: Run, config: Config) -> bool:
        summary = summarize(run)
        return summary.state == "finished" and summary.step >= config.training.steps

    status = train_all(made, results, is_finished, lambda text: click.echo(f"--- {text}", err=True))
    if status:
        sys.exit(status)


@experiments.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN RUN...")
@click.option("--output", metavar="FILE", help="Draw the learning curves into a picture: .png, .svg or .pdf.")
@click.option("--json", "json_file", metavar="FILE", help="Write the table to a file as well.")
@results_option
def compare(names: tuple[str, ...], output: Optional[str], json_file: Optional[str], results: str) -> None:
    """Show runs side by side: the settings in which they differ, and how far they got."""
    from seq2seq_chat.atomic import atomic_write
    from seq2seq_chat.comparison import as_text
    from seq2seq_chat.comparison import compare as compare_runs
    from seq2seq_chat.runs import find_run

    if output:
        picture_format(output)
    runs = [find_run(name, results) for name in names]
    found = compare_runs(runs)
    click.echo(as_text(found))
    if json_file:
        with atomic_write(Path(json_file)) as file:
            file.write(json.dumps(found._asdict(), indent=2) + "\n")
    if output:
        from seq2seq_chat.analysis.curves import draw_curves, read_curves
        from seq2seq_chat.analysis.style import save

        click.echo(save(draw_curves([read_curves(run) for run in runs]), Path(output), picture_format(output)))


def picture_format(path: str) -> Any:
    """The format that a picture's name asks for."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in ("png", "svg", "pdf"):
        raise UserError(f"--output {path}: a picture ends in .png, .svg or .pdf")
    return form
