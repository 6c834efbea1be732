"""Replies of a model in TensorFlow."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import Any

from seq2seq_chat.checkpoint.arrays import read_weights
from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding.logit_rules import graph_settings
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.engines.tensorflow.search import GraphSearch, TensorFlowSteps, is_dynamic
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import SearchWeights, Seq2Seq
from seq2seq_chat.model.variables import by_name
from seq2seq_chat.runs.run import Run
from seq2seq_chat.search.batches import ReplySearch, WholeSearch
from seq2seq_chat.search.logit_rules import rule_without_port
from seq2seq_chat.text.codec import Codecs

SCORED_ROWS = 128  # samples scored together
MAX_SEARCHES = 8  # compiled graphs that are cached, as people try out settings
DYNAMIC_SETTINGS = {"method", "beam_width", "n_best", "length_penalty", "allow_unknown", "unrolling"}
"""Settings that the search of the dynamic decoder has."""


class TensorFlowEngine:
    """Compiles searches and a scorer for a model.

    Args:
        model: Its variables may change between calls.
        constant: Whether they do not, which makes searches faster.
    """

    def __init__(self, model: Seq2Seq, constant: bool = False) -> None:
        self.model, self._constant = model, constant
        self._searches: dict[Decoding, GraphSearch] = {}  # least recently used first

    def search(self, decoding: Decoding) -> ReplySearch:
        """Return the search with the given settings, without reranking.

        One that reports its steps computes them one by one, any other one as a single graph; the most recently used
        graphs are cached.
        """
        config, graph = self.model.config, None if rule_without_port(decoding) else self._graph_search(decoding)
        source_steps = config.encoder_steps if config.attention != "none" else 0
        return ReplySearch(self.steps, decoding, config.decoder_steps, source_steps, graph)

    def _graph_search(self, decoding: Decoding) -> WholeSearch:
        adjustable = not is_dynamic(self.model, decoding)
        key = graph_settings(decoding) if adjustable else Decoding(**decoding.model_dump(include=DYNAMIC_SETTINGS))
        search = self._searches.pop(key, None) or GraphSearch(self.model, key, adjustable, self._search_weights)
        self._searches[key] = search
        if len(self._searches) > MAX_SEARCHES:
            del self._searches[next(iter(self._searches))]
        return functools.partial(search, settings=decoding)

    @functools.cached_property
    def _search_weights(self) -> SearchWeights | None:
        return self.model.search_weights() if self._constant else None

    @functools.cached_property
    def steps(self) -> TensorFlowSteps:
        """Computes the steps of searches."""
        return TensorFlowSteps(self.model, self._search_weights)

    @functools.cached_property
    def sample_scorer(self) -> Scorer:
        """Scores samples, and counts correct tokens."""
        return Scorer(self.model, max_rows=SCORED_ROWS, count_correct=True)

    def fingerprint(self) -> str:
        """SHA-256 of the current weights, in hex."""
        digest = hashlib.sha256()
        for variable in self.model.trainable_variables:
            digest.update(variable.numpy().tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class TrainedModel:
    """A model with its trained weights."""

    model: Any  # Seq2Seq, or LanguageModel
    codecs: Codecs
    step: int  # training step of the weights
    warnings: list[str]  # damaged checkpoints that were skipped


def load_trained_model(run: Run, snapshot: str | None = None) -> TrainedModel:
    """Build the model of a run and load its weights.

    If a checkpoint is damaged, logs a warning and uses the previous one.

    Args:
        snapshot: Name of the snapshot; None for the newest weights.

    Raises:
        RunError: There are no weights, or all files are damaged.
        MismatchError: The weights do not match the vocabulary or the configuration.
    """
    arrays, codecs, step, warnings = read_weights(run, snapshot)
    config, (target_size, source_size) = run.config, codecs.vocabulary_sizes
    model: Any
    if config.task == "language_model":
        model = LanguageModel(config.model, target_size, config.seed)
    else:
        model = Seq2Seq(config.model, target_size, config.seed, source_size)
    for name, variable in by_name(model.trainable_variables).items():
        variable.assign(arrays[name])
    return TrainedModel(model, codecs, step, warnings)
