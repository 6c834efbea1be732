"""`seq2seq-chat experiments {list,new,compare}`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from seq2seq_chat.cli.options import ensure_can_create, json_option, results_option
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.tables import NO_VALUE, format_table


@click.group()
def experiments() -> None:
    """List, create, train and compare experiments."""


@experiments.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@results_option
def list_experiments(as_json: bool, results: str) -> None:
    """List all runs with their status, oldest first."""
    from seq2seq_chat.runs.find import list_runs
    from seq2seq_chat.runs.summary import summarize

    runs = list_runs(results)
    summaries = [summarize(run) for run in runs]
    if as_json:
        for summary in summaries:
            click.echo(json.dumps(summary.model_dump()))
        return
    if not summaries:
        click.echo(f"no runs in {results}", err=True)
        return
    with_bleu = any(summary.best_bleu is not None for summary in summaries)
    rows = [("run", "task", "state", "step", "of", "perplexity", *(["BLEU"] * with_bleu), "at step", "last change")]

    def show(value: float | None, form: str) -> str:
        return NO_VALUE if value is None else format(value, form)

    for run, summary in zip(runs, summaries, strict=True):
        unit = f" ({run.config.data.tokenizer})" if summary.task == "language_model" else ""  # of the perplexity
        rows.append(
            (
                summary.name,
                f"{summary.task or NO_VALUE}{unit}",
                summary.state,
                f"{summary.step:,}",
                show(summary.steps, ","),
                show(summary.best_perplexity, ",.2f"),
                *([show(summary.best_bleu, ".2f")] * with_bleu),
                show(summary.best_step, ","),
                time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.changed)),
            )
        )
    click.echo(format_table(rows, "lllr"))
    notes = [f"{one.name} was initialized from {one.initialized_from}" for one in summaries if one.initialized_from]
    notes += [f"{one.name} failed: {one.reason}" for one in summaries if one.reason and one.state == "failed"]
    if notes:
        click.echo("\n" + "\n".join(notes))


@experiments.command()
@click.argument("base", metavar="BASE")
@click.option("--grid", "axes", multiple=True, metavar="KEY=V,V…", help="A setting and its values. Can be repeated.")
@click.option("--output", metavar="DIR", help="Folder for the configurations.  [default: experiments/NAME]")
@click.option("--train", is_flag=True, help="Train them one after another, resuming those that were stopped.")
@results_option
def new(base: str, axes: tuple[str, ...], output: str | None, train: bool, results: str) -> None:
    """Write a grid of configurations, based on BASE.

    Each combination of the values gives one configuration.

    \b
    seq2seq-chat experiments new configs/quickstart.json \\
        --grid model.hidden_size=128,256 --grid training.learning_rate=0.001,0.003 --train
    """
    from seq2seq_chat.config import load_config
    from seq2seq_chat.runs.grid import new_experiments, parse_axis, train_all

    if not axes:
        raise UserError("a grid needs at least one setting, for example --grid model.hidden_size=256,512")
    folder = output or Path("experiments", load_config(base, warn=False).name)
    created = new_experiments(base, [parse_axis(axis) for axis in axes], folder)
    for path, _ in created:
        click.echo(path)
    if train:
        sys.exit(train_all(created, results))


@experiments.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN RUN...")
@click.option("--output", metavar="FILE", help="Plot the learning curves to a .png, .svg or .pdf file.")
@click.option("--votes", is_flag=True, help="Show what people preferred in blind evaluations of these runs.")
@json_option
@results_option
def compare(names: tuple[str, ...], output: str | None, votes: bool, json_file: str | None, results: str) -> None:
    """Compare the settings and results of runs side by side."""
    from seq2seq_chat.runs.find import distinct_names, find_run
    from seq2seq_chat.runs.summary import compare as compare_runs
    from seq2seq_chat.runs.summary import format_comparison
    from seq2seq_chat.system.files import write_json

    ensure_can_create("--json", json_file)
    ensure_can_create("--output", output)
    file_format: Any = Path(output or "").suffix.lower().removeprefix(".")
    if output and file_format not in ("png", "svg", "pdf"):
        raise UserError(f"--output {output}: the name must end in .png, .svg or .pdf")
    runs = [find_run(name, results) for name in names]
    comparison = compare_runs(runs)
    tables, as_json = [format_comparison(comparison)], comparison.model_dump()
    if votes:
        from seq2seq_chat.report.votes.evaluation import votes_on_runs
        from seq2seq_chat.report.votes.statistics import format_votes, vote_statistics

        cast = votes_on_runs(Path(results), [run.name for run in runs])
        if not cast:
            raise UserError("there are no votes for these runs; vote on the page Judge of `seq2seq-chat serve`")
        statistics = vote_statistics(cast)
        tables.append(format_votes(statistics))
        as_json["votes"] = statistics.model_dump()
    click.echo("\n\n".join(tables))
    if json_file:
        write_json(json_file, as_json)
    if output:
        from seq2seq_chat.report.figures.curves import draw_curves, read_curves
        from seq2seq_chat.report.figures.style import save

        curves = list(map(read_curves, runs, distinct_names(runs)))
        save(draw_curves(curves), output, file_format)
        click.echo(Path(output))
