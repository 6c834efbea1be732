"""Texts of a language model, computed by ONNX Runtime."""

from __future__ import annotations

import numpy as np

from seq2seq_chat.engines.onnx.engine import Arrays, OnnxModel
from seq2seq_chat.search.engine import ALTERNATIVES, NEG_INF, Block, WordDistribution
from seq2seq_chat.search.logit_rules import sample_words, softmax, top_k, truncated_softmax


class OnnxLanguageModel:
    """Reads, scores and samples with the graph of a model; see :class:`LanguageModelEngine` for the methods."""

    def __init__(self, model: OnnxModel) -> None:
        self.model = model
        self.vocabulary_size = model.vocabulary_size

    def start(self, rows: int) -> Arrays:
        return self.model.zero_state(rows)

    def read(self, inputs: np.ndarray, states: Arrays) -> Arrays:
        for tokens in inputs.T:
            states = self.model.step(tokens, states, []).state
        return states

    def score(self, inputs: np.ndarray, targets: np.ndarray, states: Arrays) -> tuple[np.ndarray, Arrays]:
        sums, rows = np.zeros([2, len(inputs)]), np.arange(len(inputs))
        for tokens, following in zip(inputs.T, targets.T, strict=True):
            output = self.model.step(tokens, states, [])
            states = output.state
            sums[0] += output.normalizer - output.logits[rows, following]
            sums[1] += output.logits.argmax(axis=1) == following
        return sums, states

    def sample_block(
        self,
        token: np.ndarray,
        states: Arrays,
        uniform: np.ndarray,
        distribution: WordDistribution,
        forbidden: tuple[int, ...],
        explain: bool,
    ) -> tuple[Block, Arrays]:
        ids, explanations = [], []
        for numbers in uniform.T:
            output = self.model.step(token, states, [])
            logits, states = output.logits, output.state
            logits[:, forbidden] = NEG_INF
            token = sample_words(truncated_softmax(logits, distribution), numbers)
            ids.append(token)
            if explain:
                explanations.append(_explanation(logits, token))
        parts = [np.stack(part, axis=1) for part in zip(*explanations, strict=True)]
        probabilities, most_probable = parts or (None, None)
        return Block(np.stack(ids, axis=1).astype(np.int32), probabilities, most_probable), states


def _explanation(logits: np.ndarray, token: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The last two parts of a :class:`Block` for one step. logits: [rows, vocabulary], token: [rows]."""
    probabilities = softmax(logits)
    words = top_k(probabilities, min(ALTERNATIVES, probabilities.shape[1]))
    sampled = np.concatenate([words, token[:, np.newaxis]], axis=1)
    return np.take_along_axis(probabilities, sampled, axis=1), words
