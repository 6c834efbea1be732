"""A model of conversations or translations, computed by ONNX Runtime."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime

from seq2seq_chat.checkpoint.arrays import TrainedWeights
from seq2seq_chat.config import Config, Decoding, Model
from seq2seq_chat.data.batches import Batches, Bucket
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.engines.onnx.manifest import (
    CHECKSUM,
    ENCODER_FILE,
    RESTORE,
    STEP_FILE,
    ExportedModelError,
    read_manifest,
)
from seq2seq_chat.runs.run import MODEL_FILE
from seq2seq_chat.search.batches import NumPySearch
from seq2seq_chat.search.engine import SampleScores, StepOutput, StepRequest
from seq2seq_chat.search.logit_rules import candidates, choose_among, choose_words
from seq2seq_chat.search.records import SearchStep
from seq2seq_chat.system.errors import UserError
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


class TopWords(NamedTuple):
    """The most probable next words of every row, in place of all logits."""

    logits: np.ndarray  # [rows, k], largest first
    words: np.ndarray  # ids, int64 [rows, k]
    normalizer: np.ndarray  # log Σ exp of all logits: [rows]
    state: Arrays  # input of the next step
    attention: np.ndarray  # [rows, source steps]; source steps may be 0


class OnnxModel:
    """The sessions of a model's graphs: its encoder, unless it is a language model, and the step of its decoder.

    Args:
        manifest: Describes the graphs, as ``model.json`` of an exported model does.
        sessions: By the names of their files.
    """

    def __init__(self, manifest: Mapping[str, Any], sessions: Mapping[str, onnxruntime.InferenceSession]) -> None:
        self.manifest = manifest
        self._states: list[str] = manifest["state"]
        self._memory: list[str] = manifest["memory"]
        self._encoder, self._step = sessions.get(ENCODER_FILE), sessions[STEP_FILE]
        self._outputs = [output.name for output in self._step.get_outputs()]
        self.has_top_k = "top_words" in self._outputs

    @classmethod
    def open(cls, folder: Path) -> OnnxModel:
        """Open an exported model. Raises ExportedModelError if a file is damaged, or ONNX Runtime cannot read it."""
        manifest = read_manifest(folder)
        names = [STEP_FILE] if manifest["task"] == "language_model" else [ENCODER_FILE, STEP_FILE]
        sessions = {name: open_session(folder / name, manifest) for name in names}
        described = [*manifest["state"], *manifest["memory"]]
        inputs = sorted(value.name for value in sessions[STEP_FILE].get_inputs())
        if inputs != sorted(["words", *described]) or len(manifest["state_sizes"]) != len(manifest["state"]):
            raise ExportedModelError(f"{folder / STEP_FILE} is not the graph that {MODEL_FILE} describes; {RESTORE}")
        return cls(manifest, sessions)

    @classmethod
    def build(cls, config: Config, weights: TrainedWeights, quantize: str | None = None) -> OnnxModel:
        """Build the graphs of a run's weights in memory.

        Args:
            quantize: ``int8`` to store weight matrices as integers of 8 bits.
        """
        from seq2seq_chat.engines.onnx.writer import describe_graphs, model_graphs

        checksum = hashlib.sha256()
        for name in sorted(weights.arrays):
            checksum.update(np.ascontiguousarray(weights.arrays[name]).data)
        manifest = {
            **describe_graphs(config, weights.step),
            "vocabulary_size": len(weights.codecs.target.vocabulary),
            CHECKSUM: checksum.hexdigest() + (f" {quantize}" if quantize else ""),
        }
        sessions = {
            name: open_session(graph.SerializeToString(), manifest)
            for name, graph in model_graphs(config, weights.arrays, quantize, has_top_k=True).items()
        }
        return cls(manifest, sessions)

    @property
    def has_attention(self) -> bool:
        """Whether a step returns attention weights."""
        return "attention" in self._outputs

    @property
    def vocabulary_size(self) -> int:
        """Size of the target vocabulary."""
        return int(self.manifest["vocabulary_size"])

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
        logits, *others = self._run(["logits"], words, state, memory, 1)
        return OnnxOutput(logits, *others)

    def top_words(self, words: np.ndarray, state: Arrays, memory: Arrays, k: int) -> TopWords:
        """One step of the decoder that returns only the k most probable words; see :attr:`has_top_k`."""
        logits, top, *others = self._run(["top_logits", "top_words"], words, state, memory, k)
        return TopWords(logits, top, *others)

    def _run(self, names: list[str], words: np.ndarray, state: Arrays, memory: Arrays, k: int) -> list[Any]:
        """Some outputs of a step by name, then the normalizer, the next state, and the attention."""
        inputs = {"words": words.astype(np.int32, copy=False)} | dict(zip(self._states, state, strict=True))
        inputs |= dict(zip(self._memory, memory, strict=True))
        if self.has_top_k:
            inputs["k"] = np.array([k], np.int64)
        states = [f"next_{name}" for name in self._states]
        attention = ["attention"] if self.has_attention else []
        outputs = self._step.run([*names, "normalizer", *states, *attention], inputs)
        first = len(names) + 1
        weights = outputs[-1] if attention else np.zeros([len(words), 0], np.float32)
        return [*outputs[:first], outputs[first : first + len(states)], weights]


def take_rows(arrays: Sequence[np.ndarray], rows: np.ndarray) -> Arrays:
    """The given rows of each array."""
    if len(arrays) and np.array_equal(rows, np.arange(len(arrays[0]))):
        return list(arrays)
    return [array[rows] for array in arrays]


def open_session(graph: Path | bytes, manifest: Mapping[str, Any]) -> onnxruntime.InferenceSession:
    """Open a graph.

    Args:
        graph: Its file, or the contents of one.
        manifest: Names the opset.

    Raises:
        ExportedModelError: ONNX Runtime cannot read it, or it has weights in other files, which may be any.
    """
    if isinstance(graph, Path) and graph.stat().st_size:
        with open(graph, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content.find(b"location") >= 0:  # the key of such a file's name; exported models have none
                raise ExportedModelError(f"{graph} refers to other files, which no exported model does; {RESTORE}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _LIMITS["threads"]
    # between two steps, threads that wait in a loop would take the processor from the search
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # an error is reported once, by the exception
    try:
        source = graph if isinstance(graph, bytes) else str(graph)
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime has no common base class of its own
        path = "the graph of this run" if isinstance(graph, bytes) else graph
        raise ExportedModelError(
            f"ONNX Runtime {onnxruntime.__version__} cannot read {path}, which uses opset {manifest['opset']}; update "
            "it with: pip install --upgrade onnxruntime"
        ) from error


MAX_ROWS = 128  # scored together


class ArrayScorer:
    """Scores targets given their sources, word by word; see :class:`seq2seq_chat.engines.tensorflow.scorer.Scorer`."""

    def __init__(self, model: OnnxModel, config: Model) -> None:
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
