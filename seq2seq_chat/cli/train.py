"""`seq2seq-chat train`."""

from __future__ import annotations

import logging
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from click.core import ParameterSource

from seq2seq_chat.cli.options import FAILED, ensure_readable, ensure_trained, exit_with, results_option, set_option
from seq2seq_chat.system.errors import UserError

if TYPE_CHECKING:
    from seq2seq_chat.config import Config
    from seq2seq_chat.runs.run import Run
    from seq2seq_chat.training.rendezvous import Cluster


logger = logging.getLogger(__name__)


@click.command()
@click.argument("config_file", required=False, metavar="[CONFIG]")
@set_option
@click.option(
    "--hours", type=click.FloatRange(0, min_open=True), metavar="H", help="Fit steps and learning rate to this time."
)
@click.option("--resume", metavar="RUN", help="Resume a run that was stopped.")
@click.option("--init-from", metavar="RUN[:SNAPSHOT]", help="Start a new run from the weights of another one.")
@click.option("--workers", metavar="HOST:PORT,...", help="Train on several machines: the address of each.")
@click.option("--index", type=click.IntRange(0), metavar="N", help="Position of this machine in --workers: 0, 1, ...")
@results_option
def train(
    config_file: str | None,
    overrides: tuple[str, ...],
    hours: float | None,
    resume: str | None,
    init_from: str | None,
    workers: str | None,
    index: int | None,
    results: str,
) -> None:
    """Train the experiment described by CONFIG.

    CONFIG is a JSON file. The last line printed is the folder of the run.

    With --hours, the first steps are timed, and the number of steps, the learning rate, which falls to zero, and the
    spacing of validations are fitted to the time.

    With --resume, training continues from the newest checkpoint of RUN. CONFIG is then optional; it and --set may
    change training settings, but not those of the model.

    With --init-from, a new run starts from the newest weights of RUN, or from SNAPSHOT (its name, or
    `best`). Words that both runs know keep their vectors; everything else of the model must be the same.

    With --workers, several machines train one model. The one with --index 0 is the chief and writes the run; the
    others need neither CONFIG nor RUN, only the training corpus at the same path as the chief.
    """
    from seq2seq_chat.data.corpus_file import explain_validation
    from seq2seq_chat.runs.find import find_snapshot
    from seq2seq_chat.system.versions import load_tensorflow
    from seq2seq_chat.training.rendezvous import cluster_from_environment, cluster_from_options

    started = time.monotonic()
    overrides = _with_hours(overrides, hours, resume)
    cluster = cluster_from_options(workers, index)
    if cluster is not None:
        overrides = (*overrides, "training.strategy=multi_worker")
        if not cluster.is_chief:
            _train_as_worker(cluster)
    if resume is not None and init_from is not None:
        raise click.UsageError("--init-from starts a new run; it cannot be used with --resume")
    config, run = _load_experiment(config_file, resume, overrides, results)
    source = click.get_current_context().get_parameter_source("results")
    if run is None and config.results is not None and source is not ParameterSource.COMMANDLINE:
        results = config.results
    origin = find_snapshot(init_from, results) if init_from is not None else None
    if cluster is None and config.training.strategy == "multi_worker":
        cluster = cluster_from_environment()
        if cluster is not None and not cluster.is_chief:
            _train_as_worker(cluster)
    ensure_readable(config.data.train, task=config.task)
    with explain_validation():
        ensure_readable(config.data.validation)
    load_tensorflow()
    from seq2seq_chat.training import experiment

    try:
        if run is None:
            run = experiment.train(config, results, cluster, origin, started)
        else:
            experiment.resume_experiment(run, config, cluster)
    except experiment.Interrupted as interrupted:
        command = experiment.resume_command(interrupted.run, cluster)
        click.echo(f"stopped and saved; resume with: {command}", err=True)
        click.echo(interrupted.run.path)
        sys.exit(128 + interrupted.signal_number)
    except experiment.TrainingFailed as error:
        exit_with(str(error), FAILED)
    click.echo(run.path)


def _with_hours(overrides: tuple[str, ...], hours: float | None, resume: str | None) -> tuple[str, ...]:
    """The changes of settings with the time of --hours. Raises UsageError."""
    sets_steps = any(change.startswith("training.steps=") for change in overrides)
    if hours is not None:
        if resume is not None:
            raise click.UsageError("--hours is for a new run; to train a run for longer, --set training.steps=N")
        if sets_steps:
            raise click.UsageError("--hours fits training.steps to the time; use one of them")
        return (*overrides, f"training.hours={hours}")
    if sets_steps and resume is None and not any(change.startswith("training.hours=") for change in overrides):
        return (*overrides, "training.hours=null")  # which a configuration by `prepare` has
    return overrides


def _load_experiment(
    config_file: str | None, resume: str | None, overrides: tuple[str, ...], results: str
) -> tuple[Config, Run | None]:
    """The configuration, and the run to resume, if any."""
    from seq2seq_chat.config import load_config
    from seq2seq_chat.runs.find import find_run

    run = find_run(resume, results) if resume is not None else None
    if run is not None:
        ensure_trained(run, "train --resume")
    if config_file is not None:
        _ensure_not_a_run(config_file, results)
        config = load_config(config_file, overrides)
        if run is None and {"model", "training"}.isdisjoint(config.model_fields_set):
            _warn_of_default_sizes(config_file, config)
        return config, run
    if run is None:
        raise click.UsageError("specify a CONFIG to train, or a RUN to --resume")
    return run.load_config(overrides), run


def _warn_of_default_sizes(config_file: str, config: Config) -> None:
    """Warn that a configuration without sizes has the thesis's sizes, which few people mean."""
    from seq2seq_chat.architecture.variables import parameter_counts

    parameters = sum(parameter_counts(config, config.data.vocabulary_size).values())
    logger.warning(
        "%s sets neither model nor training, so the thesis's sizes apply: up to %.1f million parameters and %s steps, "
        "which take weeks on a GPU; `seq2seq-chat prepare` writes an experiment.json that fits its corpus",
        config_file,
        parameters / 1e6,
        f"{config.training.steps:,}",
    )


def _ensure_not_a_run(config_file: str, results: str) -> None:
    from seq2seq_chat.runs.find import find_run
    from seq2seq_chat.runs.run import RunError

    if Path(config_file).is_file():
        return
    with suppress(RunError):
        find_run(config_file, results)
        raise UserError(
            f"{config_file} is a run; to continue it: seq2seq-chat train --resume {shlex.quote(config_file)}"
        )


def _train_as_worker(cluster: Cluster) -> NoReturn:
    from seq2seq_chat.system.versions import load_tensorflow

    load_tensorflow()
    from seq2seq_chat.training.distribution import WorkerLost
    from seq2seq_chat.training.experiment import StoppedByChief, train_as_worker

    try:
        step = train_as_worker(cluster)
    except StoppedByChief as stopped:
        click.echo(f"stopped at step {stopped.step:,}; {cluster.describe(0)} saves the run", err=True)
        sys.exit(128 + stopped.signal_number)
    except WorkerLost as error:
        exit_with(f"{error}; training stopped. Check the messages of that worker, then restart all workers", FAILED)
    click.echo(f"finished at step {step:,}; the run is on {cluster.describe(0)}")
    sys.exit(0)
