"""Replies of a model in TensorFlow."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from seq2seq_chat.checkpoint.arrays import read_weights
from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding.logit_rules import SearchParameters, graph_settings
from seq2seq_chat.engines import ReplySearch
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.engines.tensorflow.search import GraphSearch, TensorFlowSteps, is_dynamic
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import SearchWeights, Seq2Seq
from seq2seq_chat.model.variables import by_name
from seq2seq_chat.runs.run import Run, RunError
from seq2seq_chat.search.batches import NumPySearch, Seeds
from seq2seq_chat.search.engine import Hypotheses, OnStep
from seq2seq_chat.search.logit_rules import rule_without_port
from seq2seq_chat.search.records import SearchStep
from seq2seq_chat.text.codec import Codecs

MAX_SEARCHES = 8  # compiled graphs that are cached, as people try out settings
UNCOMPILED_SETTINGS = (
    *("seed", "rerank", "rerank_weight", "rerank_prefix_length", "backward_run"),
    *("replace_unknown", "lexicon"),
)
"""Settings that do not affect the compiled search."""


class TensorFlowEngine:
    """Compiles searches and a scorer for a model.

    Args:
        model: Its variables may change between calls.
        constant: Whether they do not, which makes searches faster.
    """

    def __init__(self, model: Seq2Seq, constant: bool = False) -> None:
        self.model, self._constant = model, constant
        self.scorer = Scorer(model)
        self._searches: dict[Decoding, GraphSearch] = {}  # least recently used first
        self._sample_scorers: dict[int, Scorer] = {}

    def search(self, decoding: Decoding) -> ReplySearch:
        """Return the search with the given settings, without reranking.

        One that reports its steps computes them one by one, any other one as a single graph; the most recently used
        graphs are cached.
        """
        if rule_without_port(decoding):
            return self._search_by_steps(decoding)
        graph = self._graph_search(decoding)

        def search(
            source: np.ndarray, lengths: np.ndarray, seed: Seeds | None = None, on_step: OnStep | None = None
        ) -> Hypotheses:
            if on_step is None:
                return graph(source, lengths, seed)
            return self._search_by_steps(decoding)(source, lengths, seed, on_step)

        return search

    def watch(
        self, decoding: Decoding, source: np.ndarray, length: np.ndarray, prefix: Sequence[int] = ()
    ) -> Iterator[SearchStep]:
        """Yield the steps of a beam search; see :meth:`NumPySearch.watch`."""
        return self._search_by_steps(decoding).watch(source, length, prefix)

    def _search_by_steps(self, decoding: Decoding) -> NumPySearch:
        config = self.model.config
        source_steps = config.encoder_steps if config.attention != "none" else 0
        return NumPySearch(self._steps, decoding, config.decoder_steps, source_steps)

    def _graph_search(self, decoding: Decoding) -> GraphSearch:
        defaults = {name: Decoding.model_fields[name].default for name in UNCOMPILED_SETTINGS}
        key, adjustable = decoding.model_copy(update=defaults), not is_dynamic(self.model, decoding)
        if adjustable:
            key = graph_settings(key)
        search = self._searches.pop(key, None) or GraphSearch(self.model, key, adjustable, self._search_weights)
        self._searches[key] = search
        if len(self._searches) > MAX_SEARCHES:
            del self._searches[next(iter(self._searches))]
        return search.with_parameters(SearchParameters.of_settings(decoding))

    @functools.cached_property
    def _search_weights(self) -> SearchWeights | None:
        return self.model.search_weights() if self._constant else None

    @functools.cached_property
    def _steps(self) -> TensorFlowSteps:
        return TensorFlowSteps(self.model, self._search_weights)

    def assign(self, other: Seq2Seq) -> None:
        """Take the weights of another model of the same architecture, also if they are otherwise constant."""
        for variable, value in zip(self.model.trainable_variables, other.trainable_variables, strict=True):
            variable.assign(value)
        self._searches.clear()
        for name in ("_search_weights", "_steps"):
            self.__dict__.pop(name, None)

    def sample_scorer(self, max_rows: int) -> Scorer:
        """The compiled scorer for batches of up to ``max_rows`` samples, which counts correct tokens."""
        if max_rows not in self._sample_scorers:
            self._sample_scorers[max_rows] = Scorer(self.model, max_rows=max_rows, count_correct=True)
        return self._sample_scorers[max_rows]

    def fingerprint(self) -> str:
        """SHA-256 of the current weights, in hex."""
        digest = hashlib.sha256()
        for variable in self.model.trainable_variables:
            digest.update(variable.numpy().tobytes())
        return digest.hexdigest()


Model = TypeVar("Model", Seq2Seq, LanguageModel)


@dataclass(frozen=True)
class TrainedModel(Generic[Model]):
    """A model with its trained weights."""

    model: Model
    codecs: Codecs
    step: int  # training step of the weights
    warnings: list[str]  # damaged checkpoints that were skipped


def load_trained_model(run: Run, snapshot: str | None = None) -> TrainedModel[Seq2Seq]:
    """Build the model of a run of conversations or translations and load its weights.

    If a checkpoint is damaged, logs a warning and uses the previous one.

    Args:
        snapshot: Name of the snapshot; None for the newest weights.

    Raises:
        RunError: It is a language model, there are no weights, or all files are damaged.
        MismatchError: The weights do not match the vocabulary or the configuration.
    """
    config = run.config
    if config.task == "language_model":
        raise RunError(f"run {run.name} is a language model, which has no replies; use seq2seq-chat generate")

    def build(target_size: int, source_size: int) -> Seq2Seq:
        return Seq2Seq(config.model, target_size, config.seed, source_size)

    return _load(build, run, snapshot)


def load_language_model(run: Run, snapshot: str | None = None) -> TrainedModel[LanguageModel]:
    """Build the language model of a run and load its weights; see :func:`load_trained_model`.

    Raises:
        RunError: It is no language model, there are no weights, or all files are damaged.
        MismatchError: The weights do not match the vocabulary or the configuration.
    """
    config = run.config
    if config.task != "language_model":
        raise RunError(f"run {run.name} is no language model: its task is {config.task}; use seq2seq-chat chat")
    return _load(lambda size, _: LanguageModel(config.model, size, config.seed), run, snapshot)


def _load(build: Callable[[int, int], Model], run: Run, snapshot: str | None) -> TrainedModel[Model]:
    """Build a model for the numbers of words of target and source, once its weights are read."""
    arrays, codecs, step, warnings = read_weights(run, snapshot)
    model = build(*codecs.vocabulary_sizes)
    for name, variable in by_name(model.trainable_variables).items():
        variable.assign(arrays[name])
    return TrainedModel(model, codecs, step, warnings)
