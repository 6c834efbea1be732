"""The graphs of an exported model, computed by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnxruntime

from seq2seq_chat.config import Model
from seq2seq_chat.data.batches import Batches, Bucket
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.engines.onnx.manifest import ENCODER_FILE, STEP_FILE, ExportedModelError, read_manifest
from seq2seq_chat.search.engine import SampleScores
from seq2seq_chat.text.vocabulary import GO

Arrays: TypeAlias = list[np.ndarray]
"""The state of a model, or what it attends to: [rows, …] each."""

_LIMITS = {"threads": 0}


def limit_threads(count: int) -> None:
    """Limit the threads of each operation of models that are opened from now on; 0: one for each core."""
    _LIMITS["threads"] = count


class OnnxOutput(NamedTuple):
    """The output for the next word of every row: log p(word) = logit - normalizer."""

    logits: np.ndarray  # [rows, vocabulary]; may be changed in place
    normalizer: np.ndarray  # log Σ exp of all logits: [rows]
    state: Arrays  # input of the next step
    attention: np.ndarray  # [rows, source steps]; source steps may be 0


class ExportedModel:
    """An exported model: its description, its encoder unless it is a language model, and the step of its decoder.

    Args:
        folder: Of the exported model.

    Raises:
        ExportedModelError: A file is damaged, or ONNX Runtime cannot read it.
    """

    def __init__(self, folder: Path) -> None:
        self.manifest: Mapping[str, Any] = read_manifest(folder)
        self._states: list[str] = self.manifest["state"]
        self._memory: list[str] = self.manifest["memory"]
        self._encoder = open_session(folder / ENCODER_FILE, self.manifest) if self._memory_is_encoded else None
        self._step = open_session(folder / STEP_FILE, self.manifest)
        self._outputs = [output.name for output in self._step.get_outputs()]

    @property
    def _memory_is_encoded(self) -> bool:
        return self.manifest["task"] != "language_model"

    @property
    def has_attention(self) -> bool:
        """Whether a step returns attention weights."""
        return "attention" in self._outputs

    @property
    def step_number(self) -> int:
        """Training steps of the weights."""
        return int(self.manifest["step"])

    def zero_state(self, rows: int) -> Arrays:
        """The state of a language model before the first token."""
        return [np.zeros([rows, size], np.float32) for size in self.manifest["state_sizes"]]

    def encode(self, source: np.ndarray, lengths: np.ndarray) -> tuple[Arrays, Arrays]:
        """Ids int32 [rows, source steps] and lengths int32 [rows] → the decoder's first state, and its memory.

        Padding that no source of the batch needs is not computed.
        """
        assert self._encoder is not None
        needed = source[:, : max(1, int(np.max(lengths, initial=1)))]
        arrays = self._encoder.run(None, {"source": np.ascontiguousarray(needed), "lengths": lengths})
        return arrays[: len(self._states)], arrays[len(self._states) :]

    def step(self, words: np.ndarray, state: Arrays, memory: Arrays) -> OnnxOutput:
        """One step of the decoder. words: ids of the previous words, int32 [rows]."""
        inputs = {"words": words.astype(np.int32, copy=False)}
        inputs |= dict(zip(self._states, state, strict=True)) | dict(zip(self._memory, memory, strict=True))
        logits, normalizer, *others = self._step.run(None, inputs)
        count = len(self._states)
        attention = others[count] if self.has_attention else np.zeros([len(words), 0], np.float32)
        return OnnxOutput(logits, normalizer, others[:count], attention)


def take_rows(arrays: Sequence[np.ndarray], rows: np.ndarray) -> Arrays:
    """The given rows of each array."""
    if len(arrays) and np.array_equal(rows, np.arange(len(arrays[0]))):
        return list(arrays)
    return [array[rows] for array in arrays]


def open_session(path: Path, manifest: Mapping[str, Any]) -> onnxruntime.InferenceSession:
    """Open a graph.

    Raises:
        ExportedModelError: ONNX Runtime cannot read it.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _LIMITS["threads"]
    # between two steps, threads that wait in a loop would take the processor from the search
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # an error is reported once, by the exception
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime has no common base class of its own
        raise ExportedModelError(
            f"ONNX Runtime {onnxruntime.__version__} cannot read {path}, which uses opset {manifest['opset']}; update "
            "it with: pip install --upgrade onnxruntime"
        ) from error


MAX_ROWS = 128  # scored together


class ArrayScorer:
    """Scores targets given their sources, word by word; see :class:`seq2seq_chat.engines.tensorflow.scorer.Scorer`."""

    def __init__(self, model: ExportedModel, config: Model) -> None:
        self._model = model
        self.source_steps, self.target_steps = config.encoder_steps, config.decoder_steps

    def log_probabilities(
        self, source: np.ndarray, source_lengths: np.ndarray, target: np.ndarray, target_lengths: np.ndarray
    ) -> np.ndarray:
        """log P(target | source) of any number of pairs, in nats: [n]."""
        pairs = [part.astype(np.int32) for part in (source, source_lengths, target, target_lengths)]
        nats = [
            self._score(*(part[first : first + MAX_ROWS] for part in pairs))[0]
            for first in range(0, len(source), MAX_ROWS)
        ]
        return -np.concatenate(nats) if nats else np.zeros(0, np.float32)

    def score_samples(
        self, dataset: Dataset, buckets: Sequence[Bucket], reverse: bool, indices: np.ndarray
    ) -> SampleScores:
        """The scores of samples of a dataset; arguments as for :meth:`Scorer.score_batches`."""
        result = np.zeros((3, len(indices)))
        for batch, positions in Batches(dataset, buckets, size=MAX_ROWS, reverse=reverse, indices=indices):
            rows = slice(len(positions))
            nats, correct = self._score(*(part[rows] for part in batch))
            result[:, positions] = nats, batch.target_length[rows], correct
        return SampleScores(*result)

    def _score(
        self, source: np.ndarray, source_lengths: np.ndarray, target: np.ndarray, target_lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """-log P(target | source) and the number of words that are the most probable ones: [rows] each."""
        state, memory = self._model.encode(source, source_lengths)
        nats, correct = np.zeros([2, len(source)], np.float32)
        previous, rows = np.full(len(source), GO, np.int32), np.arange(len(source))
        for t in range(int(np.max(target_lengths, initial=0))):
            kept = np.flatnonzero(target_lengths[rows] > t)
            if len(kept) < len(rows):
                rows, previous = rows[kept], previous[kept]
                state, memory = take_rows(state, kept), take_rows(memory, kept)
            output = self._model.step(previous, state, memory)
            previous, state = target[rows, t], output.state
            nats[rows] += output.normalizer - output.logits[np.arange(len(rows)), previous]
            correct[rows] += output.logits.argmax(axis=1) == previous
        return nats, correct
