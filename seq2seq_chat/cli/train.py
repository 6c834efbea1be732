"""`seq2seq-chat train`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Optional

import click

from seq2seq_chat.cli.options import FAILED, exit_with, results_option

if TYPE_CHECKING:
    from seq2seq_chat.training.cluster import Cluster


@click.command()
@click.argument("config", required=False, metavar="CONFIG")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting: training.steps=100.")
@click.option("--resume", metavar="RUN", help="Go on with a run that was stopped.")
@click.option("--workers", metavar="HOST:PORT,...", help="Train on several machines: the address of each.")
@click.option("--index", type=click.IntRange(0), metavar="N", help="Which of --workers this machine is: 0, 1, ...")
@results_option
def train(
    config: Optional[str],
    overrides: tuple[str, ...],
    resume: Optional[str],
    workers: Optional[str],
    index: Optional[int],
    results: str,
) -> None:
    """Train the experiment described by CONFIG, a JSON file; prints the run's folder as its last line.

    With --resume a run goes on where its newest checkpoint left it. CONFIG may then be left out; settings of the
    training may be changed by it or by --set, those that shape the model may not.

    With --workers several machines train one model. The one with --index 0 leads and keeps the run; the others need
    neither CONFIG nor RUN, only the training corpus where the first one has it.
    """
    from seq2seq_chat.config import load_config
    from seq2seq_chat.environment import load_tensorflow
    from seq2seq_chat.runs import find_run
    from seq2seq_chat.training.cluster import cluster_of_environment, cluster_of_options

    cluster = cluster_of_options(workers, index)
    if cluster is not None:
        overrides = (*overrides, "training.strategy=multi_worker")
        if not cluster.leads:
            _train_along(cluster)
            return
    if config is None and resume is None:
        raise click.UsageError("name a CONFIG to train, or a RUN to --resume")
    run = find_run(resume, results) if resume else None
    settings = load_config(config or (run.path / "config.json" if run else ""), overrides)
    if cluster is None and settings.training.strategy == "multi_worker":
        cluster = cluster_of_environment()
        if cluster is not None and not cluster.leads:
            _train_along(cluster)
            return
    load_tensorflow()
    from seq2seq_chat.training.experiment import TrainingFailed, resume_experiment, start_experiment
    from seq2seq_chat.training.trainer import Interrupted

    try:
        if run is None:
            run = start_experiment(settings, results, cluster)
        else:
            resume_experiment(run, settings, cluster)
    except Interrupted as stop:
        go_on = f"seq2seq-chat train --resume {stop.run.path}" + (f" {cluster.arguments}" if cluster else "")
        click.echo(f"stopped and saved; go on with: {go_on}", err=True)
        click.echo(stop.run.path)
        sys.exit(128 + stop.signal_number)
    except TrainingFailed as error:
        exit_with(str(error), FAILED)
    click.echo(run.path)


def _train_along(cluster: Cluster) -> None:
    """Train as another worker than the first."""
    from seq2seq_chat.environment import load_tensorflow

    load_tensorflow()
    from seq2seq_chat.training.distribution import WorkerLost
    from seq2seq_chat.training.follower import Dismissed, follow

    try:
        step = follow(cluster)
    except Dismissed as stop:
        click.echo(f"stopped at step {stop.step:,}; {cluster.named(0)} saves", err=True)
        sys.exit(128 + stop.signal_number)
    except WorkerLost as error:
        exit_with(f"{error}; the training stopped. See what it said, and start every worker again", FAILED)
    click.echo(f"done at step {step:,}; {cluster.named(0)} has the run")
