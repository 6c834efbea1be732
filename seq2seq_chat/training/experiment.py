"""Start or resume the training of an experiment."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from seq2seq_chat.config import Config, flat_settings, resume_settings, upgrade_flat_settings
from seq2seq_chat.data.build_codecs import build_codecs, named_files
from seq2seq_chat.data.corpus_file import warn_of_edits
from seq2seq_chat.model.execution import micro_batch_count, share_cores
from seq2seq_chat.runs.find import RunSnapshot
from seq2seq_chat.runs.model_card import write_model_card
from seq2seq_chat.runs.run import Run, create_run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import remove_folder
from seq2seq_chat.system.signals import explain_interrupt
from seq2seq_chat.system.versions import describe_environment, make_deterministic
from seq2seq_chat.training.assemble import build_trainer, build_worker
from seq2seq_chat.training.distribution import Distribution, WorkerLost, connect, connect_workers
from seq2seq_chat.training.loop import Trainer, TrainingDiverged
from seq2seq_chat.training.rendezvous import Cluster
from seq2seq_chat.training.reporter import Console
from seq2seq_chat.training.restore import InitialWeights, ensure_resumable_settings, read_initial_weights
from seq2seq_chat.training.time_plan import without_plan

OUT_OF_MEMORY = (tf.errors.ResourceExhaustedError, MemoryError)


class TrainingFailed(Exception):
    """Training could not start or continue; the message says why, and how to resume it."""


class Interrupted(Exception):
    """A signal stopped training, after a checkpoint was saved."""

    def __init__(self, run: Run, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.run, self.signal_number = run, signal_number


class Session(NamedTuple):
    """A start of a training run."""

    run: Run
    config: Config
    distribution: Distribution
    cluster: Cluster | None
    new: bool = False  # or resumed
    initial: InitialWeights | None = None  # what a new run starts from
    started: float = 0.0  # when the command started, a time of time.monotonic()


def train(
    config: Config,
    results: str | Path = "results",
    cluster: Cluster | None = None,
    origin: RunSnapshot | None = None,
    started: float | None = None,
) -> Run:
    """Train in a new run. If training fails before anything is saved, its folder is removed.

    Args:
        results: where to create the run.
        cluster: the workers that train together, if there are several; this process is the chief.
        origin: weights of another run to start from; None: random ones.
        started: when the command started, which training.hours counts from, a time of :func:`time.monotonic`; None:
            now.

    Raises:
        UserError: a corpus, the vocabulary, the weights or the memory cannot be used.
        TrainingFailed: training could not start or continue.
        Interrupted: a signal stopped training.
    """
    started = time.monotonic() if started is None else started
    if config.training.hours is not None:
        config = config.model_copy(update={"training": without_plan(config.training)})
    initial = read_initial_weights(origin, config) if origin else None
    codecs = build_codecs(config.data, running_text=config.task == "language_model")
    warn_of_edits(named_files(config.data))
    distribution = _set_up_devices(config, cluster)
    run = create_run(results, config, codecs, describe_environment())
    try:
        _train(Session(run, config, distribution, cluster, new=True, initial=initial, started=started))
    except BaseException:
        if not _has_weights(run):
            with suppress(OSError):  # somebody has deleted or moved it
                remove_folder(run.path)
        raise
    return run


def resume_experiment(run: Run, config: Config, cluster: Cluster | None = None) -> None:
    """Continue a run from its newest checkpoint.

    Raises:
        UserError: the run is in use or damaged, or the settings of the model or the data have changed.
        TrainingFailed: training could not start or continue.
        Interrupted: a signal stopped training.
    """
    ensure_resumable_settings(run.name, resume_settings(run.config), resume_settings(config))
    _train(Session(run, config, _set_up_devices(config, cluster), cluster, started=time.monotonic()))


def _set_up_devices(config: Config, cluster: Cluster | None) -> Distribution:
    """Configure threads and devices, which must precede TensorFlow's first operation."""
    share_cores(micro_batch_count(config.model, config.training))
    distribution = connect(config.training, cluster, Console().log)
    make_deterministic(config.seed, config.training.deterministic)
    return distribution


def _train(session: Session) -> None:
    """Train a run while holding its lock, and record how training ended."""
    run, distribution = session.run, session.distribution
    with run.lock() as stale_holder, explain_interrupt(lambda: _resume_hint(run, session.cluster)):
        trainer = _start(session, stale_holder)
        if trainer is None:
            return
        try:
            with distribution.detect_lost_workers():
                signal_number = trainer.train()
            interrupted = None if signal_number is None else Interrupted(run, signal_number)
            state, reason = ("interrupted", str(interrupted)) if interrupted else ("finished", None)
            if not interrupted:
                write_model_card(run, run.path)
            run.record_end(state, trainer.state.step, reason)
        except (TrainingDiverged, WorkerLost, UserError, OSError, *OUT_OF_MEMORY) as error:
            failure = _gone(run) if run.is_gone else _training_failed(error, session)
            with suppress(UserError, OSError):  # the disk may be full
                run.record_end("failed", trainer.state.step, str(failure))
            raise failure from error
        if interrupted:
            raise interrupted


def _start(session: Session, stale_holder: str | None) -> Trainer | None:
    """Build the trainer and record the start; None if training is already finished."""
    run, config = session.run, session.config
    try:
        with session.distribution.detect_lost_workers():
            trainer = build_trainer(run, config, session.distribution, session.initial, session.started)
        if stale_holder:
            trainer.console.log(f"{stale_holder} exited without releasing this run; taking over")
        if trainer.is_finished:
            patience = " and training.early_stopping" if config.training.early_stopping else ""
            trainer.console.log(
                f"already trained for {trainer.state.step:,} steps; raise training.steps{patience} to continue"
            )
            return None
        _record_start(session, trainer)
        return trainer
    except UserError as error:
        if run.is_gone:
            raise _gone(run) from error
        raise
    except OUT_OF_MEMORY as error:
        raise UserError("out of memory; lower model.hidden_size or data.vocabulary_size") from error
    except WorkerLost as error:
        raise TrainingFailed(f"{error}. Run the same command again on every machine") from error
    except OSError as error:
        raise TrainingFailed(
            f"{error.filename or run.path}: {error.strerror or error}; training did not start"
        ) from error


def _record_start(session: Session, trainer: Trainer) -> None:
    """Append the changed settings and the initial weights to the run's history, and save the new configuration.

    Settings are compared with the checkpoint's, as the configuration may have been edited.
    """
    run, config = session.run, session.config
    before, after = flat_settings(run.config), flat_settings(config)
    before |= upgrade_flat_settings(trainer.state.trained_settings)
    changes = {} if session.new else {k: [before.get(k), v] for k, v in after.items() if before.get(k) != v}
    for key, (old, value) in changes.items():
        trainer.console.log(f"changed: {key} from {json.dumps(old)} to {json.dumps(value)}")
    if any(key.startswith("training.learning_rate") for key in changes):
        state = trainer.state
        trainer.console.log(
            f"the learning rate of step {state.step + 1:,} is {state.schedule.learning_rate(state.step):g}"
        )
    entry = {"step": trainer.state.step, "host": socket.gethostname(), "changes": changes}
    if session.initial is not None:
        entry["initialized_from"] = session.initial.describe()
    run.record_start({**entry, "environment": describe_environment()})
    if not session.new:
        run.save_config(config)


def _has_weights(run: Run) -> bool:
    return bool(run.checkpoints() or run.snapshots() or run.best_path.exists())


def resume_command(run: Run, cluster: Cluster | None) -> str:
    """The command that resumes a run."""
    workers = f" --workers {','.join(cluster.workers)} --index 0" if cluster else ""
    return f"seq2seq-chat train --resume {shlex.quote(str(run.path))}{workers}"


def _resume_hint(run: Run, cluster: Cluster | None) -> str:
    """How to continue after a signal that ends training at once: before the first step, or a second signal."""
    checkpoints = run.checkpoints()
    if not checkpoints:
        return "no checkpoint was saved yet; start training again"
    return f"the checkpoint of step {checkpoints[-1][0]:,} is saved; resume with: {resume_command(run, cluster)}"


def _gone(run: Run) -> TrainingFailed:
    """The exception for a run whose folder is not where it was."""
    return TrainingFailed(
        f"{run.path} was deleted or moved during training; training stopped. If it was moved, resume it with: "
        "seq2seq-chat train --resume FOLDER"
    )


def _training_failed(error: Exception, session: Session) -> TrainingFailed:
    """The exception that says what went wrong and how to continue."""
    run, cluster = session.run, session.cluster
    resumable = not session.new or _has_weights(run)
    remedy = f"resume with: {resume_command(run, cluster)}" if resumable else "nothing was saved; start again"
    if isinstance(error, WorkerLost) and not resumable:
        return TrainingFailed(
            f"{error}; training stopped before its first checkpoint. Run the same command again on every machine"
        )
    if isinstance(error, WorkerLost):
        return TrainingFailed(
            f"{error}; training stopped at its last checkpoint. Start every other worker again, and on this "
            f"machine {remedy}"
        )
    if isinstance(error, TrainingDiverged):
        return TrainingFailed(str(error))
    if isinstance(error, UserError):
        return TrainingFailed(f"{error}\nTraining stopped; {remedy}")
    if isinstance(error, OSError):
        return TrainingFailed(f"{error.filename or run.path}: {error.strerror or error}; training stopped, {remedy}")
    return TrainingFailed(f"out of memory; lower training.batch_size or model.hidden_size, {remedy}")


class StoppedByChief(Exception):
    """A signal to one of the workers stopped all of them; the chief saves a checkpoint."""

    def __init__(self, step: int, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.step, self.signal_number = step, signal_number


def train_as_worker(cluster: Cluster) -> int:
    """Train as a worker until the chief stops; returns the number of steps.

    Raises:
        UserError: the workers did not connect, or this one cannot take part.
        WorkerLost: another worker is gone.
        StoppedByChief: a signal to one of the workers stopped all of them after the same step.
    """
    console = Console()
    distribution = connect_workers(cluster, console.log)
    with distribution.detect_lost_workers():
        trainer = build_worker(distribution, cluster, console)
        console.log(f"{cluster.describe(cluster.task_index)} starts training at step {trainer.state.step:,}")
        signal_number = trainer.train()
    if signal_number is not None:
        raise StoppedByChief(trainer.state.step, signal_number)
    return trainer.state.step
