"""What computes replies: TensorFlow with the weights of a run, or ONNX Runtime with an exported model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from seq2seq_chat.config import Decoding
from seq2seq_chat.data.buckets import Bucket
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.decoding.result import Hypotheses, OnStep, SampleScores
from seq2seq_chat.decoding.uniform import Seeds
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.versions import load_tensorflow

if TYPE_CHECKING:
    from seq2seq_chat.inference.observed_search import ObservedSearch


class Search(Protocol):
    """Finds replies to encoded utterances."""

    def __call__(
        self, source: np.ndarray, lengths: np.ndarray, seed: Seeds | None = None, on_step: OnStep | None = None
    ) -> Hypotheses:
        """The hypotheses of encoded utterances; see :meth:`ReplySearch.__call__`."""


class ExactScorer(Protocol):
    """Computes exact log-probabilities of targets."""

    source_steps: int
    target_steps: int

    def log_probabilities(
        self, source: np.ndarray, source_lengths: np.ndarray, target: np.ndarray, target_lengths: np.ndarray
    ) -> np.ndarray:
        """log P(target | source) of pairs in nats, [n]; see :meth:`Scorer.log_probabilities`."""

    def score_samples(
        self, dataset: Dataset, buckets: Sequence[Bucket], reverse: bool, indices: np.ndarray
    ) -> SampleScores:
        """The scores of samples of a dataset; see :meth:`Scorer.score_samples`."""


class ReplyEngine(Protocol):
    """A model of conversations or translations, as a chatbot uses it."""

    @property
    def scorer(self) -> ExactScorer:
        """Scores targets with the model."""

    def fingerprint(self) -> str:
        """SHA-256 of the current weights, in hex."""

    def sample_scorer(self, max_rows: int) -> ExactScorer:
        """A scorer for batches of up to ``max_rows`` samples, which counts correct tokens."""

    @property
    def observed_search(self) -> ObservedSearch:
        """The beam search, one step at a time. Raises RunError for an exported model."""

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
        UnsupportedVersion: TensorFlow is missing, which a run needs.
    """
    if run.is_exported:
        from seq2seq_chat.portable.reply_engine import load_exported_engine

        exported = load_exported_engine(run, snapshot)
        return LoadedEngine(exported, run.codecs, exported.model.step_number, [])
    load_tensorflow()
    from seq2seq_chat.inference.restore import load_trained_model
    from seq2seq_chat.inference.tensorflow_engine import TensorFlowEngine

    trained = load_trained_model(run, snapshot)
    return LoadedEngine(TensorFlowEngine(trained.model, constant=True), trained.codecs, trained.step, trained.warnings)
