"""What computes replies: TensorFlow with the weights of a run, or ONNX Runtime with an exported model."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from seq2seq_chat.config import Decoding
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.decoding.result import Hypotheses
from seq2seq_chat.runs.run import Run


class Search(Protocol):
    """Finds replies to encoded utterances."""

    def __call__(self, source: np.ndarray, lengths: np.ndarray, seed: int | None = None) -> Hypotheses:
        """source: ids int32 [n, source steps], lengths: int32 [n] → hypotheses of NumPy arrays, [n, n_best, …].

        ``seed`` is for sampling; None for a new one at every call.
        """


class PairScorer(Protocol):
    """Computes exact log-probabilities of targets."""

    source_steps: int
    target_steps: int

    def log_probabilities(
        self, source: np.ndarray, source_lengths: np.ndarray, target: np.ndarray, target_lengths: np.ndarray
    ) -> np.ndarray:
        """log P(target | source) of pairs in nats, [n]; see :meth:`Scorer.log_probabilities`."""


class ReplyEngine(Protocol):
    """A model of conversations or translations, as a chatbot uses it."""

    @property
    def scorer(self) -> PairScorer:
        """Scores targets with the model."""

    def search(self, decoding: Decoding) -> Search:
        """A search with the given settings, without reranking."""


class LoadedEngine(NamedTuple):
    """The engine of a run, and what belongs to it."""

    engine: ReplyEngine
    codecs: Codecs
    step: int  # training steps of the weights
    warnings: list[str]  # damaged checkpoints that were skipped


def load_engine(run: Run, snapshot: str | None = None) -> LoadedEngine:
    """The engine for a run or an exported model.

    Raises:
        RunError, MismatchError: See :func:`load_trained_model`.
        ExportedModelError: The exported model is damaged, or needs a newer version.
    """
    if run.is_exported:
        from seq2seq_chat.portable.reply_engine import load_exported_engine

        exported = load_exported_engine(run, snapshot)
        return LoadedEngine(exported, run.codecs, exported.model.step_number, [])
    from seq2seq_chat.checkpoint.restore import load_trained_model
    from seq2seq_chat.inference.tensorflow_engine import TensorFlowEngine

    trained = load_trained_model(run, snapshot)
    return LoadedEngine(TensorFlowEngine(trained.model), trained.codecs, trained.step, trained.warnings)
