"""A trained run under analysis: its model, which can take the weights of any of the run's snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.load import load_engine
from seq2seq_chat.engines import SampleScorer
from seq2seq_chat.runs.find import RunSnapshot
from seq2seq_chat.runs.run import LATEST, Run, RunError, snapshot_name, snapshot_step

if TYPE_CHECKING:
    from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine
    from seq2seq_chat.model.seq2seq import Seq2Seq


class Snapshot(NamedTuple):
    """Weights that a run has saved."""

    name: str  # as given to --snapshot
    label: str  # its training steps: "0.5M"


class LoadedRun:
    """A run with its model. Loading another snapshot changes the weights only; graphs of the scorer stay compiled.

    Attributes:
        run, config, codecs, chatbot: the run, or an exported model, and the objects built from it.
        snapshot: the name of the current weights.
        step: training steps of the current weights.
    """

    def __init__(self, run: Run, snapshot: str | None = None, others: Sequence[RunSnapshot] = ()) -> None:
        """Load a run; see :func:`load_engine` for ``others`` and the exceptions raised."""
        self.run, self.config = run, run.config
        loaded = load_engine(run, snapshot, others=others)
        self.codecs, self.step = loaded.codecs, loaded.step
        self.snapshot = snapshot or LATEST
        self.chatbot = Chatbot(loaded.engine, self.codecs, self.config, results=run.results)

    @property
    def model(self) -> Seq2Seq:
        """The model. Raises RunError for an exported model, of which there are only graphs."""
        return self._engine.model

    @property
    def _engine(self) -> TensorFlowEngine:
        if self.run.is_exported:
            raise RunError(f"{self.run.name} is an exported model, whose internals are not available; use its run")
        return cast("TensorFlowEngine", self.chatbot.engine)

    @property
    def label(self) -> str:
        """Training steps of the current weights: "0.5M"."""
        return snapshot_name(self.step)

    def load_snapshot(self, name: str) -> None:
        """Replace the weights; see :func:`load_trained_model` for the exceptions raised."""
        if name == self.snapshot:
            return
        from seq2seq_chat.engines.tensorflow.engine import load_trained_model

        trained = load_trained_model(self.run, name)
        self._engine.assign(trained.model)
        self.step, self.snapshot = trained.step, name

    def scorer(self, max_rows: int) -> SampleScorer:
        """The scorer for batches of up to ``max_rows`` samples, which counts correct tokens."""
        return self.chatbot.engine.sample_scorer(max_rows)

    def weights_fingerprint(self) -> str:
        """SHA-256 of the current weights, in hex."""
        return self.chatbot.engine.fingerprint()


def available_snapshots(run: Run) -> list[Snapshot]:
    """The snapshots of a run, earliest first, then its newest checkpoint if that is newer."""
    snapshots = [Snapshot(name, name) for name in run.snapshots()]
    checkpoints = run.checkpoints()
    newest = max((snapshot_step(name) for name in run.snapshots()), default=-1)
    if checkpoints and checkpoints[-1][0] > newest:
        snapshots.append(Snapshot(LATEST, snapshot_name(checkpoints[-1][0])))
    return snapshots
