"""Training along with a first worker: every other worker of several machines.

A follower has no run and no configuration. It is told what to learn and with which weights, computes its share of every
step, and learns after each validation how to go on. All it needs is the training corpus, at the path the first worker
has it.
"""

from __future__ import annotations

import json
import signal
import time

from seq2seq_chat.config import Config, parse_config
from seq2seq_chat.corpus.encoded import EncodedCorpus
from seq2seq_chat.corpus.experiment_data import open_samples
from seq2seq_chat.corpus.vocabulary import Vocabulary
from seq2seq_chat.environment import make_deterministic
from seq2seq_chat.errors import UserError
from seq2seq_chat.training.cluster import Cluster
from seq2seq_chat.training.console import Console
from seq2seq_chat.training.distribution import Distribution, ensure_divisible, meet
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.memory import available_memory, ensure_memory, estimate_memory
from seq2seq_chat.training.metrics import Meter
from seq2seq_chat.training.parts import batch_parts
from seq2seq_chat.training.precision import ensure_available
from seq2seq_chat.training.schedules import Progress
from seq2seq_chat.training.stopping import StopRequest


class Dismissed(Exception):
    """A signal asked the training to stop, and the first worker saves."""

    def __init__(self, step: int, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.step, self.signal_number = step, signal_number


def brief(distribution: Distribution, config: Config, vocabulary: Vocabulary, corpus: EncodedCorpus) -> None:
    """Tell the other workers what is to be learned, and wait until they are ready.

    Raises:
        WorkerLost: one of them cannot take part; the message says why.
    """
    settings = json.loads(config.to_json())
    settings["training"]["batch_parts"] = batch_parts(config)  # what suits this machine, for all: draws depend on it
    distribution.from_first({"config": settings, "words": vocabulary.words, "corpus": corpus.fingerprint})
    distribution.ensure_all()


def align(distribution: Distribution, learner: Learner, progress: Progress) -> None:
    """Have all workers where the first one is: at its step, with its weights and its learning rate."""
    told = distribution.from_first({"step": learner.step, "place": learner.place, "progress": progress.state})
    learner.go_on(told["step"], told["place"])
    progress.restore(told["progress"])
    distribution.variables_from_first([*learner.variables, *learner.precision_variables])


def follow(cluster: Cluster) -> int:
    """Train along until the first worker ends the training; how many steps it has then.

    Raises:
        UserError: the workers did not find each other, or this one cannot take part.
        WorkerLost: another one is gone.
        Dismissed: a signal came to one of the workers; all stopped after the same step.
    """
    distribution = meet(cluster, Console().say)
    with distribution.watched():
        return Follower(distribution, cluster).train()


class Follower:
    """A worker that is told what to do.

    Args:
        distribution: the devices of all workers.
        cluster: which of them this one is.

    Raises:
        UserError: the corpus is not here, or another one; the precision or the memory is not to be had.
    """

    def __init__(self, distribution: Distribution, cluster: Cluster) -> None:
        self._distribution, self._cluster, self._console = distribution, cluster, Console()
        told = distribution.from_first(None)
        self._config = parse_config(told["config"], where=cluster.named(0))
        make_deterministic(self._config.seed, self._config.training.deterministic)
        try:
            vocabulary = Vocabulary(told["words"], source=f"the vocabulary of {cluster.named(0)}")
            corpus = self._open(vocabulary, told["corpus"])
        except UserError as error:
            distribution.ensure_all(str(error))
            raise
        distribution.ensure_all()
        self._learner = Learner(self._config, len(vocabulary), corpus, distribution)
        self._progress, self._meter = Progress(self._config.training), Meter(sampled=self._learner.sampled)
        self._request = StopRequest()
        align(distribution, self._learner, self._progress)

    def _open(self, vocabulary: Vocabulary, expected: str) -> EncodedCorpus:
        data = self._config.data
        ensure_divisible(self._config.training.batch_size, self._distribution.devices)
        ensure_available(self._config.training.precision)
        corpus = open_samples(data.train, vocabulary, data)
        if corpus.fingerprint != expected:
            raise UserError(f"{data.train} is not the corpus that {self._cluster.named(0)} learns; copy that one here")
        sharing = self._distribution
        estimate = estimate_memory(self._config, len(vocabulary), sharing.devices, sharing.together)
        ensure_memory(estimate, available_memory())
        return corpus

    def train(self) -> int:
        """Train along; see :func:`follow`."""
        training = self._config.training
        self._console.say(f"{self._cluster.named(self._cluster.number)} trains along from step {self._learner.step:,}")
        self._console.begin(self._learner.step, training.steps)
        stopping = False
        try:
            with self._request.heard():
                while self._learner.step < training.steps and not self._progress.gave_up and not stopping:
                    stopping = self._train_one_step()
        finally:
            self._console.end()
        if stopping and self._learner.step < training.steps and not self._progress.gave_up:
            raise Dismissed(self._learner.step, self._request.signal or signal.SIGTERM)
        return self._learner.step

    def _train_one_step(self) -> bool:
        """Whether it was the last one, as somebody asked to stop."""
        begun, training = time.monotonic(), self._config.training
        self._learner.set_rate(self._progress.learning_rate(self._learner.step))
        result = self._learner.learn(stop=self._request.made)
        self._meter.add(result, time.monotonic() - begun, self._learner.data_seconds)
        step, last = self._learner.step, self._learner.step == training.steps
        self._console.advance(step, self._meter)
        if step % training.log_every == 0 or last:
            self._console.training_line(self._meter.line(step))
            self._meter.reset()
        if step % training.validate_every == 0 or last:
            self._progress.restore(self._distribution.from_first(None))
        return bool(result.stop > 0)
