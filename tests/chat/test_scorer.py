"""Scores of texts of a network that forgets slowly, divided into streams and not; TensorFlow is not involved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seq2seq_chat.chat import rerank
from seq2seq_chat.chat.rerank import LanguageModelScorer
from seq2seq_chat.search.engine import Block


class SlowModel:
    """The nats of a token are its distance from a mean of those before it, in which the last has most weight."""

    vocabulary_size = 9
    decay = 0.9

    def start(self, rows: int) -> list[np.ndarray]:
        return [np.zeros([rows, 1]), np.zeros([rows, 1])]

    def read(self, inputs: np.ndarray, states: list[np.ndarray]) -> list[np.ndarray]:
        return self.score(inputs, inputs, states)[1]

    def score(
        self, inputs: np.ndarray, targets: np.ndarray, states: list[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        (one, two), sums = states, np.zeros([2, len(inputs)])
        for tokens, following in zip(inputs.T[:, :, np.newaxis], targets.T[:, :, np.newaxis], strict=True):
            one = self.decay * one + tokens / 9
            two = self.decay * two - one / 9
            sums += [np.abs(following - one - two)[:, 0], (following == np.round(one))[:, 0]]
        return sums, [one, two]

    def sample_block(self, *arguments: Any) -> tuple[Block, Any]:
        raise NotImplementedError


@pytest.mark.parametrize(("length", "warm_up", "steps"), [(512, 512, 256), (40, 10, 7), (40, 40, 40), (25, 1, 100)])
@pytest.mark.parametrize("count", [2, 41, 203, 330])
def test_a_text_is_scored_from_the_states_of_its_tokens(
    length: int, warm_up: int, steps: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its first token on, as one stream: the streams begin where others end, and the rest follows the last."""
    monkeypatch.setattr(rerank, "MIN_LENGTH", length)
    monkeypatch.setattr(rerank, "WARM_UP", warm_up)
    monkeypatch.setattr(rerank, "MAX_STEPS", steps)
    monkeypatch.setattr(rerank, "TOLERANCE", 1e-9)
    model, tokens = SlowModel(), np.random.default_rng(count).integers(0, 9, count)
    sums, _ = model.score(tokens[np.newaxis, :-1], tokens[np.newaxis, 1:], model.start(1))
    score = LanguageModelScorer(model).score(tokens)
    assert score.nats == pytest.approx(sums[0, 0], rel=1e-7)
    assert (score.tokens, score.correct) == (count - 1, int(sums[1, 0]))
