"""Replies of a model of conversations or translations, computed by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Decoding, Model
from seq2seq_chat.engines.onnx.manifest import CHECKSUM
from seq2seq_chat.engines.onnx.model import Arrays, ArrayScorer, OnnxModel, take_rows
from seq2seq_chat.search.batches import NumPySearch
from seq2seq_chat.search.engine import StepOutput, StepRequest
from seq2seq_chat.search.logits import candidates, choose_among, choose_words
from seq2seq_chat.search.records import SearchStep
from seq2seq_chat.system.errors import UserError


class Rows(NamedTuple):
    """The state of a search between two steps."""

    state: Arrays  # of the decoder, [rows, …] each
    memory: Arrays  # what the decoder reads at every step, [rows, …] each
    utterances: npt.NDArray[np.int32]  # of each row, [rows]


class OnnxEngine:
    """Searches and scores with the graphs of a model.

    Args:
        model: The graphs.
        config: Its architecture.
        is_exported: Whether it has left its run, so that there is no dynamic decoder to use instead.
    """

    def __init__(self, model: OnnxModel, config: Model, is_exported: bool = True) -> None:
        self.model, self._config, self._is_exported = model, config, is_exported
        self.scorer = ArrayScorer(model, config)

    def start(self, source: np.ndarray, lengths: np.ndarray) -> Rows:
        """See :class:`Engine`."""
        return Rows(*self.model.encode(source, lengths), np.arange(len(source), dtype=np.int32))

    def step(self, rows: Rows, request: StepRequest) -> tuple[StepOutput, Rows]:
        """See :class:`Engine`."""
        utterances = rows.utterances[request.parents]
        memory = rows.memory
        if not np.array_equal(utterances, rows.utterances):
            memory = take_rows(memory, request.parents)
        state = take_rows(rows.state, request.parents)
        count = candidates(request) if self.model.has_top_k else None
        if count is None:
            output = self.model.step(request.words, state, memory)
            chosen = choose_words(output.logits, output.normalizer, output.attention, request)
            return chosen, Rows(output.state, memory, utterances)
        top = self.model.top_words(request.words, state, memory, min(count, self.model.vocabulary_size))
        chosen = choose_among(top.logits, top.words, top.normalizer, top.attention, request)
        return chosen, Rows(top.state, memory, utterances)

    def search(self, decoding: Decoding) -> NumPySearch:
        """Return the search with the given settings, without reranking. Raises UserError for the dynamic decoder."""
        if decoding.unrolling == "dynamic" and not self._is_exported:
            raise UserError("decoding.unrolling dynamic needs TensorFlow; start with --engine tensorflow")
        source_steps = self._config.encoder_steps if self.model.has_attention else 0
        return NumPySearch(self, decoding, self._config.decoder_steps, source_steps)

    def watch(
        self, decoding: Decoding, source: np.ndarray, length: np.ndarray, prefix: Sequence[int] = ()
    ) -> Iterator[SearchStep]:
        """Yield the steps of a beam search; see :meth:`NumPySearch.watch`."""
        return self.search(decoding).watch(source, length, prefix)

    def sample_scorer(self, max_rows: int) -> ArrayScorer:
        """Return a scorer of samples, which counts correct tokens."""
        return self.scorer

    def fingerprint(self) -> str:
        """SHA-256 in hex of the weights, or of ``model.json``, which holds the checksums of exported graphs."""
        return str(self.model.manifest[CHECKSUM])
