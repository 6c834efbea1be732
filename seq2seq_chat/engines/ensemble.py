"""Several models that search and score as one: the mean of the probabilities that they give to the next word."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from seq2seq_chat.config import Model
from seq2seq_chat.engines import ReplyEngine
from seq2seq_chat.engines.scorer import StepScorer
from seq2seq_chat.search.batches import StepEngine
from seq2seq_chat.search.engine import Edits, StepOutput, StepRequest
from seq2seq_chat.search.logit_rules import choose_words


class EnsembleEngine(StepEngine):
    """Searches and scores with the mean of probabilities.

    Args:
        engines: Engines of models with the same vocabularies and maximum lengths.
        config: The architecture of one of them.
        has_attention: Whether any of them has.
    """

    def __init__(self, engines: Sequence[ReplyEngine], config: Model, has_attention: bool) -> None:
        super().__init__(config, has_attention)
        self._engines = engines

    def start(self, source: np.ndarray, lengths: np.ndarray) -> list[Any]:
        """See :class:`Engine`; the state is one of each model."""
        return [engine.steps.start(source, lengths) for engine in self._engines]

    def step(self, states: list[Any], request: StepRequest) -> tuple[StepOutput, list[Any]]:
        """See :class:`Engine`. The edits apply to the logarithm of the mean; the attention is the mean, too."""
        everything = StepRequest(request.words, request.parents, Edits(), k=0)
        pairs = zip(self._engines, states, strict=True)
        outputs, following = zip(*(engine.steps.step(state, everything) for engine, state in pairs), strict=True)
        logits = np.logaddexp.reduce([output.log_probabilities for output in outputs]) - math.log(len(outputs))
        attention = [output.attention for output in outputs if output.attention.shape[1]] or [outputs[0].attention]
        rows = np.zeros(len(logits), np.float32)
        chosen = choose_words(logits.astype(np.float32), rows, np.mean(attention, axis=0), request)
        return chosen, list(following)

    @property
    def sample_scorer(self) -> StepScorer:
        """Scores samples, and counts correct tokens."""
        return StepScorer(self)

    def fingerprint(self) -> str:
        """SHA-256 in hex of the weights of all models."""
        return hashlib.sha256("".join(engine.fingerprint() for engine in self._engines).encode()).hexdigest()
