"""What computes a model, TensorFlow or ONNX Runtime, and what chatbots, generators and scorers need of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from seq2seq_chat.config import Decoding
from seq2seq_chat.data.batches import Bucket
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.search.batches import ReplySearch
from seq2seq_chat.search.engine import Block, BlockRequest, Engine, SampleScores

MAX_LOGITS = 30e6  # tokens times vocabulary size: bounds the memory of the full softmax

States = list[np.ndarray]
"""The parts of a language model's state, [rows, hidden] each."""


class SampleScorer(Protocol):
    """Computes exact log-probabilities of targets."""

    def score_samples(
        self, dataset: Dataset, buckets: Sequence[Bucket], reverse: bool, indices: np.ndarray
    ) -> SampleScores:
        """The scores of samples of a dataset; see :meth:`Scorer.score_samples`."""


class ReplyEngine(Protocol):
    """A model of conversations or translations, as a chatbot uses it."""

    @property
    def steps(self) -> Engine:
        """Computes the steps of searches."""

    def fingerprint(self) -> str:
        """SHA-256 of the current weights, in hex."""

    @property
    def sample_scorer(self) -> SampleScorer:
        """Scores samples, and counts correct tokens."""

    def search(self, decoding: Decoding) -> ReplySearch:
        """A search with the given settings, without reranking."""


class LanguageModelEngine(Protocol):
    """A language model, as a generator and a scorer use it. All ids are int32."""

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens."""

    def start(self, rows: int) -> States:
        """The states before the first token."""

    def read(self, inputs: np.ndarray, states: States) -> States:
        """The states after reading tokens, ids [rows, steps]."""

    def score(self, inputs: np.ndarray, targets: np.ndarray, states: States) -> tuple[np.ndarray, States]:
        """Read tokens, [rows, steps]: nats and correct predictions of the targets, [2, rows], and the states."""

    def sample_block(self, states: States, request: BlockRequest) -> tuple[Block, States]:
        """Sample tokens; return them as arrays, and the states before the last one. states: before ``token``."""
