"""A model that is a table of probabilities, for tests of searches without a network."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.data.vocabulary import EOS, GO, PAD
from seq2seq_chat.decoding.beam import beam_search
from seq2seq_chat.decoding.hypotheses import StepOutput
from seq2seq_chat.decoding.logit_rules import LogitRule
from seq2seq_chat.decoding.result import NEG_INF, Hypotheses
from seq2seq_chat.decoding.search import SearchInputs
from seq2seq_chat.decoding.sequential import sequential_search


class TableModel:
    """A model whose next word depends on all previous words: a table of log-probabilities for every history.

    The state is the history itself, so a search that mixes up states gets wrong scores.
    """

    def __init__(self, words: int, steps: int, seeds: list[int]) -> None:
        self.words, self.steps, self.rows = words, steps, len(seeds)
        self.tables = np.full([len(seeds), words**steps * 2, words], NEG_INF, np.float32)
        for row, seed in enumerate(seeds):
            rng = np.random.default_rng(seed)
            logits = rng.normal(size=self.tables.shape[1:]) * 2
            logits[:, [PAD, GO]] = NEG_INF
            self.tables[row] = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def inputs(self, *logit_rules: LogitRule) -> SearchInputs:
        """State: history as a number in base ``words`` with a leading one; memory: the utterance."""
        state, memory = tf.zeros([self.rows], tf.int32), tf.range(self.rows)
        return SearchInputs(self.step, state, memory, self.steps, source_steps=2, logit_rules=logit_rules)

    def step(self, words: tf.Tensor, state: Any, memory: Any) -> StepOutput:
        row, history = memory, state
        history = tf.where(words == GO, 1, history * self.words + words)
        index = tf.stack([row, tf.math.floormod(history, self.tables.shape[1])], axis=1)
        log_probabilities = tf.gather_nd(tf.constant(self.tables), index)
        attention = tf.stack([tf.cast(history, tf.float32), tf.cast(row, tf.float32)], axis=1)
        return StepOutput(log_probabilities, tf.zeros([tf.shape(words)[0]]), history, attention)

    def score(self, row: int, sequence: tuple[int, ...]) -> float:
        history, score = 1, 0.0
        for word in sequence:
            score += float(self.tables[row, history % self.tables.shape[1], word])
            history = history * self.words + word
        return score

    def all_sequences(self) -> list[tuple[int, ...]]:
        """All possible replies: ended by EOS, or cut at the step limit."""
        words = [word for word in range(self.words) if word not in (PAD, GO, EOS)]
        ended = [(*s, EOS) for n in range(self.steps) for s in itertools.product(words, repeat=n)]
        return ended + list(itertools.product(words, repeat=self.steps))

    def beam(self, width: int, n_best: int, logit_rules: Sequence[LogitRule] = (), **options: Any) -> Hypotheses:
        hypotheses = beam_search(self.inputs(*logit_rules), width=width, n_best=n_best, **options)
        return Hypotheses(*(field.numpy() for field in hypotheses))

    def greedy(self) -> Hypotheses:
        hypotheses = sequential_search(self.inputs())
        return Hypotheses(*(field.numpy() for field in hypotheses))


@pytest.fixture(scope="session")
def table_model() -> type[TableModel]:
    """The class :class:`TableModel`."""
    return TableModel
