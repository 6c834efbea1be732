"""An experiment from its configuration to a trained run: the one door to training."""

from __future__ import annotations

import json
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from typing import Optional, Union

import tensorflow as tf

from seq2seq_chat.config import Config, flat_settings
from seq2seq_chat.corpus.experiment_data import training_vocabulary
from seq2seq_chat.environment import describe_environment, make_deterministic
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run, create_run
from seq2seq_chat.training.cluster import Cluster
from seq2seq_chat.training.console import Console
from seq2seq_chat.training.distribution import Distribution, WorkerLost, connect
from seq2seq_chat.training.fixed import ensure_same_settings, fixed_settings
from seq2seq_chat.training.parts import batch_parts, share_cores
from seq2seq_chat.training.trainer import Interrupted, LossNotFinite, Trainer


class TrainingFailed(Exception):
    """A training that began and could not go on; the message says why, and how to go on."""


def start_experiment(config: Config, results: Union[str, Path], cluster: Optional[Cluster] = None) -> Run:
    """Train in a new run. A run that is refused, or that fails before it has saved anything, leaves no folder.

    Of a cluster this is the first worker; the others train along by :func:`follower.follow`.

    Raises:
        UserError: the corpora, the vocabulary or the memory do not allow it.
        TrainingFailed, Interrupted: see :func:`_train`.
    """
    vocabulary = training_vocabulary(config.data)
    distribution = _prepare(config, cluster)
    run = create_run(results, config, vocabulary, describe_environment())
    try:
        _train(run, config, distribution, cluster, new=True)
    except BaseException:
        if not _has_saved(run):
            shutil.rmtree(run.path)
        raise
    return run


def resume_experiment(run: Run, config: Config, cluster: Optional[Cluster] = None) -> None:
    """Go on with a run from its newest checkpoint.

    Raises:
        UserError: the run is in use, damaged, or was begun with another model or other data.
        TrainingFailed, Interrupted: see :func:`_train`.
    """
    ensure_same_settings(run.name, fixed_settings(run.config), fixed_settings(config))
    _train(run, config, _prepare(config, cluster), cluster, new=False)


def _prepare(config: Config, cluster: Optional[Cluster]) -> Distribution:
    """Set up threads and devices, which has to come before TensorFlow's first operation."""
    share_cores(batch_parts(config))
    distribution = connect(config.training, cluster, Console().say)
    make_deterministic(config.seed, config.training.deterministic)
    return distribution


def _train(run: Run, config: Config, distribution: Distribution, cluster: Optional[Cluster], new: bool) -> None:
    """Train a run that nobody else trains.

    Raises:
        TrainingFailed: the loss is no number any more, the disk is full, the memory too small, a worker is gone.
        Interrupted: a signal came; everything is saved.
    """
    with run.lock() as left_behind:
        try:
            with distribution.watched():
                trainer = Trainer(run, config, run.vocabulary, distribution)
            if left_behind:
                trainer.console.say(f"{left_behind} ended without letting go of this run; it is taken over")
            if trainer.is_finished:
                trainer.console.say(
                    f"already trained for {trainer.learner.step:,} steps; raise training.steps"
                    + (" and training.early_stopping" if config.training.early_stopping else "")
                    + " to go on"
                )
                return
            _record_start(run, config, new, trainer)
        except tf.errors.ResourceExhaustedError as error:
            raise UserError("out of memory; lower model.hidden_size or data.vocabulary_size") from error
        except WorkerLost as error:
            raise TrainingFailed(f"{error}. Start the same command on every machine again") from error
        except OSError as error:
            raise TrainingFailed(
                f"{error.filename or run.path}: {error.strerror}; the training did not begin"
            ) from error
        try:
            with distribution.watched():
                trainer.train()
        except Interrupted as stop:
            run.record_end("interrupted", trainer.learner.step, str(stop))
            raise
        except (LossNotFinite, WorkerLost, UserError, OSError, tf.errors.ResourceExhaustedError) as error:
            failure = _failure(error, run, cluster, kept=not new or _has_saved(run))
            with suppress(UserError, OSError):  # a full disk has no room for this either
                run.record_end("failed", trainer.learner.step, str(failure))
            raise failure from error
        run.record_end("finished", trainer.learner.step)


def _record_start(run: Run, config: Config, new: bool, trainer: Trainer) -> None:
    """Keep the configuration that is valid from now on, and in the history what changed."""
    before, now = flat_settings(run.config), flat_settings(config)
    changes = {key: [before.get(key), value] for key, value in now.items() if before.get(key) != value}
    for key, (old, value) in changes.items():
        trainer.console.say(f"changed: {key} from {json.dumps(old)} to {json.dumps(value)}")
    environment = describe_environment()
    run.record_start(
        {"step": trainer.learner.step, "host": socket.gethostname(), "changes": changes, "environment": environment}
    )
    if not new:
        run.save_config(config)


def _has_saved(run: Run) -> bool:
    return bool(run.checkpoints() or run.snapshots() or run.best_path.exists())


def _failure(error: Exception, run: Run, cluster: Optional[Cluster], kept: bool) -> TrainingFailed:
    """What to tell; ``kept`` says whether the run stays, and there is something to go on with."""
    go_on = f"go on with: seq2seq-chat train --resume {run.path}" if kept else "nothing was saved before; begin anew"
    if isinstance(error, WorkerLost) and not kept:
        return TrainingFailed(
            f"{error}; the training stopped before its first checkpoint. Start the same command on every machine again"
        )
    if isinstance(error, WorkerLost) and cluster is not None:
        return TrainingFailed(
            f"{error}; the training stopped at its last checkpoint. Start every other worker again, and on this "
            f"machine {go_on} {cluster.arguments}"
        )
    if isinstance(error, LossNotFinite):
        return TrainingFailed(str(error))
    if isinstance(error, UserError):
        return TrainingFailed(f"{error}\nThe training stopped; {go_on}")
    if isinstance(error, OSError):
        return TrainingFailed(f"{error.filename or run.path}: {error.strerror}; the training stopped, {go_on}")
    return TrainingFailed(f"out of memory; lower training.batch_size or model.hidden_size, {go_on}")
