"""Start or resume the training of an experiment."""

from __future__ import annotations

import json
import shutil
import signal
import socket
from contextlib import suppress
from pathlib import Path

import tensorflow as tf

from seq2seq_chat.config import Config, flat_settings
from seq2seq_chat.data.vocabulary import training_vocabulary
from seq2seq_chat.model.micro_batches import micro_batch_count, share_cores
from seq2seq_chat.runs.run import Run, create_run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.signals import explain_interrupt
from seq2seq_chat.system.versions import describe_environment, make_deterministic
from seq2seq_chat.training.chief import LossNotFinite
from seq2seq_chat.training.console import Console
from seq2seq_chat.training.distribution.collective import Distribution, WorkerLost, connect
from seq2seq_chat.training.distribution.rendezvous import Cluster
from seq2seq_chat.training.loop import Trainer
from seq2seq_chat.training.resume_compatibility import ensure_same_settings, resume_settings
from seq2seq_chat.training.setup import build_trainer


class TrainingFailed(Exception):
    """A training could not start or continue; the message says why, and how to resume it."""


class Interrupted(Exception):
    """A signal interrupted the training, which saved a checkpoint and stopped."""

    def __init__(self, run: Run, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.run, self.signal_number = run, signal_number


def start_experiment(config: Config, results: str | Path, cluster: Cluster | None = None) -> Run:
    """Train in a new run. If nothing was saved before a failure, no folder is left.

    Args:
        config: the experiment.
        results: where to create the run.
        cluster: the workers that train together, if there are several; this process is the chief.

    Raises:
        UserError: a corpus, the vocabulary or the memory cannot be used.
        TrainingFailed: the training could not start or continue.
        Interrupted: a signal stopped the training.
    """
    vocabulary = training_vocabulary(config.data)
    distribution = _set_up_devices(config, cluster)
    run = create_run(results, config, vocabulary, describe_environment())
    try:
        _train(run, config, distribution, cluster, new=True)
    except BaseException:
        if not _has_saved(run):
            shutil.rmtree(run.path)
        raise
    return run


def resume_experiment(run: Run, config: Config, cluster: Cluster | None = None) -> None:
    """Continue a run from its newest checkpoint.

    Raises:
        UserError: the run is in use or damaged, or the settings of the model or the data have changed.
        TrainingFailed: the training could not start or continue.
        Interrupted: a signal stopped the training.
    """
    ensure_same_settings(run.name, resume_settings(run.config), resume_settings(config))
    _train(run, config, _set_up_devices(config, cluster), cluster, new=False)


def _set_up_devices(config: Config, cluster: Cluster | None) -> Distribution:
    """Configure threads and devices, which must precede TensorFlow's first operation."""
    share_cores(micro_batch_count(config.model, config.training))
    distribution = connect(config.training, cluster, Console().log)
    make_deterministic(config.seed, config.training.deterministic)
    return distribution


def _train(run: Run, config: Config, distribution: Distribution, cluster: Cluster | None, new: bool) -> None:
    """Train a run while holding its lock, and record how the training ended."""
    with run.lock() as stale_holder, explain_interrupt(lambda: _saved_state(run, cluster)):
        trainer = _start(run, config, distribution, stale_holder, new)
        if trainer is None:
            return
        try:
            with distribution.watched():
                signal_number = trainer.train()
        except (LossNotFinite, WorkerLost, UserError, OSError, tf.errors.ResourceExhaustedError) as error:
            failure = _failure(error, run, cluster, kept=not new or _has_saved(run))
            with suppress(UserError, OSError):  # the disk may be full
                run.record_end("failed", trainer.state.step, str(failure))
            raise failure from error
        if signal_number is not None:
            interrupted = Interrupted(run, signal_number)
            run.record_end("interrupted", trainer.state.step, str(interrupted))
            raise interrupted
        run.record_end("finished", trainer.state.step)


def _start(run: Run, config: Config, distribution: Distribution, stale_holder: str | None, new: bool) -> Trainer | None:
    """Build the trainer and record the start; None if the run is already trained."""
    try:
        with distribution.watched():
            trainer = build_trainer(run, config, run.vocabulary, distribution)
        if stale_holder:
            trainer.console.log(f"{stale_holder} ended without releasing this run; taking it over")
        if trainer.is_finished:
            patience = " and training.early_stopping" if config.training.early_stopping else ""
            trainer.console.log(
                f"already trained for {trainer.state.step:,} steps; raise training.steps{patience} to continue"
            )
            return None
        _record_start(run, config, new, trainer)
        return trainer
    except tf.errors.ResourceExhaustedError as error:
        raise UserError("out of memory; lower model.hidden_size or data.vocabulary_size") from error
    except WorkerLost as error:
        raise TrainingFailed(f"{error}. Start the same command on every machine again") from error
    except OSError as error:
        raise TrainingFailed(f"{error.filename or run.path}: {error.strerror}; the training did not start") from error


def _record_start(run: Run, config: Config, new: bool, trainer: Trainer) -> None:
    """Add the changed settings to the run's history, and save the configuration that is valid from now on."""
    before, now = flat_settings(run.config), flat_settings(config)
    changes = {key: [before.get(key), value] for key, value in now.items() if before.get(key) != value}
    for key, (old, value) in changes.items():
        trainer.console.log(f"changed: {key} from {json.dumps(old)} to {json.dumps(value)}")
    environment = describe_environment()
    run.record_start(
        {"step": trainer.state.step, "host": socket.gethostname(), "changes": changes, "environment": environment}
    )
    if not new:
        run.save_config(config)


def _has_saved(run: Run) -> bool:
    return bool(run.checkpoints() or run.snapshots() or run.best_path.exists())


def _saved_state(run: Run, cluster: Cluster | None) -> str:
    """What is saved of a training that was stopped before its first step or by a second signal; how to continue."""
    checkpoints = run.checkpoints()
    if not checkpoints:
        return "no checkpoint was saved yet; start the training again"
    options = f" {cluster.chief_arguments}" if cluster else ""
    return (
        f"the checkpoint of step {checkpoints[-1][0]:,} is saved; "
        f"resume with: seq2seq-chat train --resume {run.path}{options}"
    )


def _failure(error: Exception, run: Run, cluster: Cluster | None, kept: bool) -> TrainingFailed:
    """Say what went wrong and how to continue; ``kept`` says whether there is a run to resume."""
    remedy = f"resume with: seq2seq-chat train --resume {run.path}" if kept else "nothing was saved; start it again"
    if isinstance(error, WorkerLost) and not kept:
        return TrainingFailed(
            f"{error}; the training stopped before its first checkpoint. Start the same command on every machine again"
        )
    if isinstance(error, WorkerLost) and cluster is not None:
        return TrainingFailed(
            f"{error}; the training stopped at its last checkpoint. Start every other worker again, and on this "
            f"machine {remedy} {cluster.chief_arguments}"
        )
    if isinstance(error, LossNotFinite):
        return TrainingFailed(str(error))
    if isinstance(error, UserError):
        return TrainingFailed(f"{error}\nThe training stopped; {remedy}")
    if isinstance(error, OSError):
        return TrainingFailed(f"{error.filename or run.path}: {error.strerror}; the training stopped, {remedy}")
    return TrainingFailed(f"out of memory; lower training.batch_size or model.hidden_size, {remedy}")
