"""A trained run under analysis, with the weights of one of its snapshots."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.config import Decoding
from seq2seq_chat.runs.find import RunSnapshot
from seq2seq_chat.runs.run import LATEST, Run, RunError, snapshot_step
from seq2seq_chat.system.hardware import AUTO, EngineOptions

if TYPE_CHECKING:
    from seq2seq_chat.model.seq2seq import Seq2Seq


class Snapshot(NamedTuple):
    """Weights that a run has saved."""

    name: str  # as given to --snapshot
    label: str  # its training steps: "500,000"


class LoadedRun:
    """A run with a chatbot that has the weights of a snapshot.

    Attributes:
        run, config, codecs, chatbot: the run, or an exported model, and the objects built from it.
        snapshot: the name of the weights.
        step: their training steps.
    """

    def __init__(
        self,
        run: Run,
        snapshot: str | None = None,
        engine: EngineOptions = AUTO,
        decoding: Decoding | None = None,
        others: Sequence[RunSnapshot] = (),
    ) -> None:
        """Load a run; see :func:`load_engine` for arguments and errors raised."""
        self.run, self.config, self.snapshot = run, run.config, snapshot or LATEST
        self.chatbot = Chatbot.load(run, snapshot, engine, decoding, others)
        self.codecs, self.step = self.chatbot.codecs, self.chatbot.step

    @functools.cached_property
    def model(self) -> Seq2Seq:
        """The model in TensorFlow. Raises RunError for an exported model, of which there are only graphs."""
        if self.run.is_exported:
            raise RunError(f"{self.run.name} is an exported model, whose internals are not available; use its run")
        from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine, load_trained_model

        if isinstance(self.chatbot.engine, TensorFlowEngine):
            return self.chatbot.engine.model
        return load_trained_model(self.run, self.snapshot).model

    @property
    def label(self) -> str:
        """Training steps of the weights: "500,000"."""
        return f"{self.step:,}"


def available_snapshots(run: Run) -> list[Snapshot]:
    """The snapshots of a run, earliest first, then its newest checkpoint if that is newer."""
    steps = {name: snapshot_step(name) for name in run.snapshots()}
    checkpoints = run.checkpoints()
    if checkpoints and checkpoints[-1][0] > max(steps.values(), default=-1):
        steps[LATEST] = checkpoints[-1][0]
    return [Snapshot(name, f"{step:,}") for name, step in steps.items()]
