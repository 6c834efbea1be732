"""Replies of a model in TensorFlow."""

from __future__ import annotations

import functools

from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding.parameters import SearchParameters, graph_settings
from seq2seq_chat.inference.reply_search import ReplySearch, is_dynamic
from seq2seq_chat.inference.scorer import Scorer
from seq2seq_chat.model.seq2seq import Seq2Seq, StepWeights

MAX_SEARCHES = 8  # compiled graphs that are cached, as people try out settings
UNCOMPILED_SETTINGS = (
    *("seed", "rerank", "rerank_weight", "rerank_prefix_length", "backward_run"),
    *("replace_unknown", "lexicon"),
)
"""Settings that do not affect the compiled search."""


class TensorFlowEngine:
    """Compiles searches and a scorer for a model. Its variables may change between calls."""

    def __init__(self, model: Seq2Seq) -> None:
        self.model = model
        self.scorer = Scorer(model)
        self._searches: dict[Decoding, ReplySearch] = {}  # least recently used first

    def search(self, decoding: Decoding) -> ReplySearch:
        """The compiled search with the given settings, without reranking; the most recently used ones are cached."""
        defaults = {name: Decoding.model_fields[name].default for name in UNCOMPILED_SETTINGS}
        key, adjustable = decoding.model_copy(update=defaults), not is_dynamic(self.model, decoding)
        if adjustable:
            key = graph_settings(key)
        search = self._searches.pop(key, None) or ReplySearch(self.model, key, adjustable, self._step_weights)
        self._searches[key] = search
        if len(self._searches) > MAX_SEARCHES:
            del self._searches[next(iter(self._searches))]
        return search.with_parameters(SearchParameters.of_settings(decoding))

    @functools.cached_property
    def _step_weights(self) -> StepWeights:
        return self.model.step_weights()
