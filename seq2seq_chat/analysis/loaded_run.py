"""What is analysed: a run, and its model with the weights of one moment of its training after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from seq2seq_chat.chatbot import Chatbot
from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.corpus.vocabulary import Vocabulary
from seq2seq_chat.decoding.reply_search import ReplySearch
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.runs import LATEST, Run, snapshot_name, snapshot_step
from seq2seq_chat.training.restore import load_trained_model


class Moment(NamedTuple):
    """A moment of a training whose weights are there."""

    snapshot: str  # the name by which a run finds them
    label: str  # how many steps were behind them: "0.5M"


class Subject:
    """A run whose model can be looked at. The weights change, the graphs stay: they are compiled once.

    Attributes:
        run, config, vocabulary, model, bot: the run, what it was made of, and what talks.
        step: training steps behind the weights that the model has now.
    """

    def __init__(
        self, run: Run, snapshot: str | None = None, warn: Callable[[str], object] = lambda text: None
    ) -> None:
        """Load a run; see :func:`load_trained_model` for the errors raised."""
        self.run, self._warn = run, warn
        self.config: Config = run.config
        trained = load_trained_model(run, snapshot, warn)
        self.model: Seq2Seq = trained.model
        self.vocabulary: Vocabulary = trained.vocabulary
        self.step, self._loaded = trained.step, snapshot or LATEST
        self.bot = Chatbot(self.model, self.vocabulary, self.config, results=run.path.parent)
        self._searches: dict[Decoding, ReplySearch] = {}

    @property
    def label(self) -> str:
        """The moment the model is at: "0.5M"."""
        return snapshot_name(self.step)

    def go_to(self, snapshot: str) -> None:
        """Give the model the weights of another moment; see :func:`load_trained_model` for the errors raised."""
        if snapshot == self._loaded:
            return
        trained = load_trained_model(self.run, snapshot, self._warn)
        for variable, other in zip(self.model.trainable_variables, trained.model.trainable_variables, strict=True):
            variable.assign(other)
        self.step, self._loaded = trained.step, snapshot

    def search(self, decoding: Decoding) -> ReplySearch:
        """The compiled search of a way of decoding."""
        if decoding not in self._searches:
            self._searches[decoding] = ReplySearch(self.model, decoding)
        return self._searches[decoding]

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the weights that the model has now."""
        digest = hashlib.sha256()
        for variable in self.model.trainable_variables:
            digest.update(variable.numpy().tobytes())
        return digest.hexdigest()


def moments(run: Run) -> list[Moment]:
    """The moments of a run whose weights are there: its snapshots, and its newest weights where they are newer."""
    found = [Moment(name, name) for name in run.snapshots()]
    checkpoints = run.checkpoints()
    newest = max((snapshot_step(name) for name in run.snapshots()), default=-1)
    if checkpoints and checkpoints[-1][0] > newest:
        found.append(Moment(LATEST, snapshot_name(checkpoints[-1][0])))
    return found
