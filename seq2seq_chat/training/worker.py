"""Workers other than the chief, and what the chief broadcasts to them.

A worker has no run and no configuration: the chief broadcasts what to train and the initial weights. The worker
computes its share of every step, and receives the schedule after each validation. All it needs is the training corpus,
at the same path as on the chief.
"""

from __future__ import annotations

import json
import signal
from typing import Any

from seq2seq_chat.architecture.memory import ensure_memory, estimate_memory
from seq2seq_chat.config import Config, parse_config
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.model.micro_batches import micro_batch_count
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import available_memory
from seq2seq_chat.system.versions import make_deterministic
from seq2seq_chat.training.distribution.collective import Distribution, connect_workers, ensure_divisible
from seq2seq_chat.training.distribution.rendezvous import Cluster
from seq2seq_chat.training.learner import build_learner
from seq2seq_chat.training.loop import Role, Trainer, TrainingState
from seq2seq_chat.training.optimizers import Schedule, ensure_available
from seq2seq_chat.training.reporter import Console, Meter
from seq2seq_chat.training.sampler import open_training_corpus, training_batches


class StoppedByChief(Exception):
    """A signal to one of the workers stopped all of them; the chief saves a checkpoint."""

    def __init__(self, step: int, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.step, self.signal_number = step, signal_number


def broadcast_setup(distribution: Distribution, config: Config, codecs: Codecs, corpus: Dataset) -> None:
    """Send the other workers what to train, and wait until they are ready.

    Raises:
        WorkerLost: a worker cannot take part; the message says why.
    """
    settings = json.loads(config.to_json())
    # of the chief, for all workers, as random numbers depend on it
    settings["training"]["micro_batches"] = micro_batch_count(config.model, config.training)
    distribution.broadcast({"config": settings, "codecs": codecs.to_json(), "corpus": corpus.fingerprint})
    distribution.barrier()


def synchronize(distribution: Distribution, state: TrainingState) -> None:
    """Give all workers the chief's step, weights and learning rate."""
    learner = state.learner
    received = distribution.broadcast(
        {"step": learner.step, "sampler": learner.sampler_state, "schedule": state.schedule.state}
    )
    learner.resume_at(received["step"], received["sampler"])
    state.schedule.restore(received["schedule"])
    distribution.broadcast_variables([*learner.variables, *learner.loss_scale_variables])


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


class Worker(Role):
    """Shows metrics, and leaves everything else to the chief."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def log_metrics(self, metrics: dict[str, Any]) -> None:
        """Show the training metrics."""
        self._console.log_metrics(metrics)


def build_worker(distribution: Distribution, cluster: Cluster, console: Console) -> Trainer:
    """Build the trainer for the setup that the chief broadcasts.

    Raises:
        UserError: the corpus is missing or differs from the chief's; the precision or the memory is not available.
    """
    setup = distribution.broadcast(None)
    config = parse_config(setup["config"], where=cluster.describe(0))
    make_deterministic(config.seed, config.training.deterministic)
    try:
        codecs = Codecs.from_json(setup["codecs"], config.data, cluster.describe(0))
        corpus = _open_corpus(config, codecs, distribution, cluster, setup["corpus"])
    except UserError as error:
        distribution.barrier(str(error))
        raise
    distribution.barrier()
    learner = build_learner(config, codecs, training_batches(config, codecs, corpus), distribution)
    state = TrainingState(learner, Schedule(config.training), Meter(sampled=learner.sampled))
    synchronize(distribution, state)
    return Trainer(state, config.training, Worker(console), console, distribution)


def _open_corpus(
    config: Config, codecs: Codecs, distribution: Distribution, cluster: Cluster, fingerprint: str
) -> Dataset:
    """Open the corpus and check that this machine can train on it."""
    ensure_divisible(config.training.batch_size, distribution.devices)
    ensure_available(config.training.precision)
    corpus = open_training_corpus(config, codecs, lambda message: None)  # the chief reports it
    if corpus.fingerprint != fingerprint:
        raise UserError(f"{config.data.train} differs from the corpus of {cluster.describe(0)}; copy that file here")
    estimate = estimate_memory(
        config,
        *codecs.vocabulary_sizes,
        devices=distribution.devices,
        replicas_in_memory=distribution.replicas_in_memory,
    )
    ensure_memory(estimate, available_memory())
    return corpus
