"""Models computed by ONNX Runtime: the sessions of their graphs, and engines, scorer and language model over them."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnxruntime

from seq2seq_chat.checkpoint.arrays import TrainedWeights
from seq2seq_chat.config import Config, Decoding, Model
from seq2seq_chat.engines.onnx.manifest import (
    CHECKSUM,
    ENCODER_FILE,
    RESTORE,
    STEP_FILE,
    ExportedModelError,
    read_manifest,
)
from seq2seq_chat.engines.scorer import StepScorer
from seq2seq_chat.runs.run import MODEL_FILE
from seq2seq_chat.search.batches import ReplySearch, StepEngine
from seq2seq_chat.search.engine import ALTERNATIVES, NEG_INF, Block, BlockRequest, Rows, StepOutput, StepRequest
from seq2seq_chat.search.logit_rules import (
    candidates,
    choose_among,
    choose_words,
    sample_words,
    softmax,
    top_k,
    truncated_softmax,
)
from seq2seq_chat.system.errors import UserError

Arrays: TypeAlias = list[np.ndarray]
"""The state of a model, or what it attends to: [rows, …] each."""

_LIMITS = {"threads": 0}


def limit_threads(count: int) -> None:
    """Limit the threads of each operation of models that are opened from now on; 0: one for each core."""
    _LIMITS["threads"] = count


class OnnxOutput(NamedTuple):
    """The output for the next word of every row: log p(word) = logit - normalizer."""

    logits: np.ndarray  # [rows, vocabulary], which may be changed in place; of the words only: [rows, k]
    normalizer: np.ndarray  # log Σ exp of all logits: [rows]
    state: Arrays  # input of the next step
    attention: np.ndarray  # [rows, source steps]; source steps may be 0
    words: np.ndarray | None  # the most probable ones, largest logit first, ids int64 [rows, k]; None: all


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
        outputs = {output.name for output in self._step.get_outputs()}
        self.has_top_k, self.has_attention = "top_words" in outputs, "attention" in outputs
        self.vocabulary_size = int(manifest["vocabulary_size"])  # of the target

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

    def encode(self, source: np.ndarray, lengths: np.ndarray) -> tuple[Arrays, Arrays]:
        """Ids int32 [rows, source steps] and lengths int32 [rows] → the decoder's first state, and its memory.

        Padding that no source of the batch needs is not computed.
        """
        assert self._encoder is not None
        needed = source[:, : max(1, int(np.max(lengths, initial=1)))]
        arrays = self._run(self._encoder, None, {"source": np.ascontiguousarray(needed), "lengths": lengths})
        return arrays[: len(self._states)], arrays[len(self._states) :]

    def step(
        self, words: np.ndarray, state: Arrays, memory: Sequence[np.ndarray] = (), k: int | None = None
    ) -> OnnxOutput:
        """Compute one step of the decoder.

        Args:
            words: Ids of the previous words, int32 [rows].
            state, memory: The decoder's state and memory.
            k: How many of the most probable words to return, if the graph :attr:`has_top_k`; None: all logits.
        """
        inputs = {"words": words.astype(np.int32, copy=False)} | dict(zip(self._states, state, strict=True))
        inputs |= dict(zip(self._memory, memory, strict=True))
        if self.has_top_k:
            inputs["k"] = np.array([k or 1], np.int64)
        names = ["logits" if k is None else "top_logits", "normalizer", *(f"next_{name}" for name in self._states)]
        names += ["attention"] * self.has_attention + ["top_words"] * (k is not None)
        outputs = dict(zip(names, self._run(self._step, names, inputs), strict=True))
        attention = outputs.get("attention", np.zeros([len(words), 0], np.float32))
        state = [outputs[f"next_{name}"] for name in self._states]
        return OnnxOutput(outputs[names[0]], outputs["normalizer"], state, attention, outputs.get("top_words"))

    @staticmethod
    def _run(session: onnxruntime.InferenceSession, names: list[str] | None, inputs: dict[str, np.ndarray]) -> Arrays:
        """The outputs of a graph. Raises ExportedModelError if its operations do not fit together."""
        try:
            outputs: Arrays = session.run(names, inputs)
        except MemoryError:
            raise
        except Exception as error:  # ONNX Runtime has no common base class of its own
            if "allocate memory" in str(error):
                raise MemoryError(str(error)) from error
            raise ExportedModelError(
                f"the graph could not be computed: {str(error).splitlines()[0]}; {RESTORE}"
            ) from error
        return outputs


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
    except MemoryError:
        raise
    except Exception as error:  # ONNX Runtime has no common base class of its own
        path = "the graph of this run" if isinstance(graph, bytes) else graph
        message = f"ONNX Runtime {onnxruntime.__version__} cannot read {path}"
        if any(cause in str(error) for cause in ("opset", "IR version", "No Op registered", "NOT_IMPLEMENTED")):
            message += f", which uses opset {manifest['opset']}; update it with: pip install --upgrade onnxruntime"
        else:
            message += f": {str(error).splitlines()[0]}"
        raise ExportedModelError(message) from error


class OnnxEngine(StepEngine):
    """Searches and scores with the graphs of a model.

    Args:
        is_exported: Whether it has left its run, so that there is no dynamic decoder to use instead.
    """

    def __init__(self, model: OnnxModel, config: Model, is_exported: bool = True) -> None:
        super().__init__(config, model.has_attention)
        self.model, self._is_exported = model, is_exported

    def start(self, source: np.ndarray, lengths: np.ndarray) -> Rows:
        """See :class:`Engine`."""
        return Rows(*self.model.encode(source, lengths), np.arange(len(source), dtype=np.int32))

    def step(self, rows: Rows, request: StepRequest) -> tuple[StepOutput, Rows]:
        """See :class:`Engine`."""
        utterances, memory = rows.utterances[request.parents], rows.memory
        if not np.array_equal(utterances, rows.utterances):
            memory = take_rows(memory, request.parents)
        state = take_rows(rows.state, request.parents)
        count = candidates(request) if self.model.has_top_k else None
        k = None if count is None else min(count, self.model.vocabulary_size)
        logits, normalizer, state, attention, words = self.model.step(request.words, state, memory, k)
        if words is None:
            chosen = choose_words(logits, normalizer, attention, request)
        else:
            chosen = choose_among(logits, words, normalizer, attention, request)
        return chosen, Rows(state, memory, utterances)

    @property
    def sample_scorer(self) -> StepScorer:
        """Scores samples, and counts correct tokens."""
        return StepScorer(self)

    def search(self, decoding: Decoding) -> ReplySearch:
        """Return the search with the given settings, without reranking. Raises UserError for the dynamic decoder."""
        if decoding.unrolling == "dynamic" and not self._is_exported:
            raise UserError("decoding.unrolling dynamic needs TensorFlow; start with --engine tensorflow")
        return super().search(decoding)

    def fingerprint(self) -> str:
        """SHA-256 in hex of the weights, or of ``model.json``, which holds the checksums of exported graphs."""
        return str(self.model.manifest[CHECKSUM])


class OnnxLanguageModel:
    """Reads, scores and samples with the graph of a model; see :class:`LanguageModelEngine` for the methods."""

    def __init__(self, model: OnnxModel) -> None:
        self.model, self.vocabulary_size = model, model.vocabulary_size

    def start(self, rows: int) -> Arrays:
        return [np.zeros([rows, size], np.float32) for size in self.model.manifest["state_sizes"]]

    def read(self, inputs: np.ndarray, states: Arrays) -> Arrays:
        for tokens in inputs.T:
            states = self.model.step(tokens, states).state
        return states

    def score(self, inputs: np.ndarray, targets: np.ndarray, states: Arrays) -> tuple[np.ndarray, Arrays]:
        sums, rows = np.zeros([2, len(inputs)]), np.arange(len(inputs))
        for tokens, following in zip(inputs.T, targets.T, strict=True):
            output = self.model.step(tokens, states)
            states = output.state
            sums[0] += output.normalizer - output.logits[rows, following]
            sums[1] += output.logits.argmax(axis=1) == following
        return sums, states

    def sample_block(self, states: Arrays, request: BlockRequest) -> tuple[Block, Arrays]:
        token, uniform, distribution, forbidden, explain = request
        ids, explanations = [], []
        for numbers in uniform.T:
            output = self.model.step(token, states)
            logits, states = output.logits, output.state
            logits[:, forbidden] = NEG_INF
            token = sample_words(truncated_softmax(logits, distribution), numbers)
            ids.append(token)
            if explain:
                probabilities = softmax(logits)
                words = top_k(probabilities, min(ALTERNATIVES, self.vocabulary_size))
                explained = np.concatenate([words, token[:, np.newaxis]], axis=1)
                explanations.append((np.take_along_axis(probabilities, explained, axis=1), words))
        parts = [np.stack(part, axis=1) for part in zip(*explanations, strict=True)]
        return Block(np.stack(ids, axis=1).astype(np.int32), *(parts or (None, None))), states
