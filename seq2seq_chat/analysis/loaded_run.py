"""A trained run under analysis: its model, which can take the weights of any of the run's snapshots."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from seq2seq_chat.checkpoint.restore import load_trained_model
from seq2seq_chat.inference.chatbot import Chatbot
from seq2seq_chat.inference.scorer import Scorer
from seq2seq_chat.inference.tensorflow_engine import TensorFlowEngine
from seq2seq_chat.runs.run import LATEST, Run, snapshot_name, snapshot_step


class Snapshot(NamedTuple):
    """Weights that a run has saved."""

    name: str  # as given to --snapshot
    label: str  # its training steps: "0.5M"


class LoadedRun:
    """A run with its model. Loading another snapshot changes the weights only, so graphs are compiled once.

    Attributes:
        run, config, codecs, model, chatbot: the run and the objects built from it.
        snapshot: the name of the current weights.
        step: training steps of the current weights.
    """

    def __init__(self, run: Run, snapshot: str | None = None) -> None:
        """Load a run; see :func:`load_trained_model` for the exceptions raised."""
        self.run, self.config = run, run.config
        trained = load_trained_model(run, snapshot)
        self.model, self.codecs, self.step = trained.model, trained.codecs, trained.step
        self.snapshot = snapshot or LATEST
        self.chatbot = Chatbot(TensorFlowEngine(self.model), self.codecs, self.config, results=run.path.parent)
        self._scorers: dict[int, Scorer] = {}

    @property
    def label(self) -> str:
        """Training steps of the current weights: "0.5M"."""
        return snapshot_name(self.step)

    def load_snapshot(self, name: str) -> None:
        """Replace the weights; see :func:`load_trained_model` for the exceptions raised."""
        if name == self.snapshot:
            return
        trained = load_trained_model(self.run, name)
        for variable, loaded in zip(self.model.trainable_variables, trained.model.trainable_variables, strict=True):
            variable.assign(loaded)
        self.step, self.snapshot = trained.step, name

    def scorer(self, max_rows: int) -> Scorer:
        """The compiled scorer for batches of up to ``max_rows`` samples, which counts correct tokens."""
        if max_rows not in self._scorers:
            self._scorers[max_rows] = Scorer(self.model, max_rows=max_rows, count_correct=True)
        return self._scorers[max_rows]

    def weights_fingerprint(self) -> str:
        """SHA-256 of the current weights, in hex."""
        digest = hashlib.sha256()
        for variable in self.model.trainable_variables:
            digest.update(variable.numpy().tobytes())
        return digest.hexdigest()


def available_snapshots(run: Run) -> list[Snapshot]:
    """The snapshots of a run, earliest first, then its newest checkpoint if that is newer."""
    snapshots = [Snapshot(name, name) for name in run.snapshots()]
    checkpoints = run.checkpoints()
    newest = max((snapshot_step(name) for name in run.snapshots()), default=-1)
    if checkpoints and checkpoints[-1][0] > newest:
        snapshots.append(Snapshot(LATEST, snapshot_name(checkpoints[-1][0])))
    return snapshots
