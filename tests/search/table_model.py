"""A model that is a table of probabilities, for tests of searches without a network: as an engine, and in a graph."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from seq2seq_chat.config import Decoding
from seq2seq_chat.search.batches import ReplySearch, uniform_numbers
from seq2seq_chat.search.engine import NEG_INF, Hypotheses, Rows, StepOutput, StepRequest
from seq2seq_chat.search.logit_rules import choose_words, log_normalizer
from seq2seq_chat.search.records import SearchStep
from seq2seq_chat.text.vocabulary import EOS, GO, PAD

Sequences = list[tuple[int, ...]]


def settings(**changes: Any) -> Decoding:
    """Settings of a search that forbid no words unless told so; a beam width makes it a beam search."""
    if "beam_width" in changes:
        changes = {"method": "beam", "n_best": changes["beam_width"], **changes}
    return Decoding(**{"allow_unknown": True, **changes})


class TableModel:
    """A model whose next word depends on all previous words: a table of logits for every history.

    Its state is the history as a number in base ``words`` with a leading one, its memory the number of the table. So a
    search that mixes up states gets wrong scores; the attention tells both.
    """

    def __init__(self, words: int, steps: int, seeds: Sequence[int]) -> None:
        self.words, self.steps, self.rows = words, steps, len(seeds)
        self.logits = np.full([len(seeds), words**steps * 2, words], NEG_INF, np.float32)
        for row, seed in enumerate(seeds):
            self.logits[row] = np.random.default_rng(seed).normal(size=self.logits.shape[1:]) * 2
        self.logits[:, :, [PAD, GO]] = -30
        self.log_probabilities = self.logits - np.log(np.exp(self.logits).sum(axis=2, keepdims=True))

    # an engine

    def start(self, source: np.ndarray, lengths: np.ndarray) -> Rows:
        return Rows([np.zeros(len(source), np.int64)], [source[:, 0]], np.arange(len(source), dtype=np.int32))

    def step(self, rows: Rows, request: StepRequest) -> tuple[StepOutput, Rows]:
        utterances, histories = rows.memory[0][request.parents], rows.state[0][request.parents]
        histories = np.where(request.words == GO, 1, histories * self.words + request.words)
        logits = self.logits[utterances, histories % self.logits.shape[1]]
        attention = np.stack([histories, utterances], axis=1).astype(np.float32)
        following = Rows([histories], [utterances], rows.utterances[request.parents])
        return choose_words(logits, log_normalizer(logits), attention, request), following

    # searches

    def search(self, decoding: Decoding, **options: Any) -> Hypotheses:
        """Search for replies to utterances that are the numbers of the tables."""
        source = np.arange(self.rows, dtype=np.int32)[:, np.newaxis]
        search = ReplySearch(self, decoding, self.steps, source_steps=2)
        return search(source, np.ones(self.rows, np.int32), **options)

    def watch(self, decoding: Decoding, prefix: Sequence[int] = ()) -> list[SearchStep]:
        """The steps of a beam search for the first utterance."""
        search = ReplySearch(self, decoding, self.steps, source_steps=2)
        return list(search.watch(np.zeros([1, 1], np.int32), np.ones(1, np.int32), prefix))

    def graph_search(self, decoding: Decoding, seed: int = 0) -> Hypotheses:
        """The same search as a graph."""
        import tensorflow as tf

        from seq2seq_chat.decoding.logit_rules import SearchParameters
        from seq2seq_chat.decoding.methods import find_hypotheses
        from seq2seq_chat.decoding.search import ModelOutput, SearchInputs
        from seq2seq_chat.decoding.search import log_normalizer as graph_normalizer

        def step(words: tf.Tensor, state: Any, memory: Any) -> ModelOutput:
            history = tf.where(words == GO, 1, state * self.words + words)
            index = tf.stack([memory, tf.math.floormod(history, self.logits.shape[1])], axis=1)
            logits = tf.gather_nd(tf.constant(self.logits), index)
            attention = tf.stack([tf.cast(history, tf.float32), tf.cast(memory, tf.float32)], axis=1)
            return ModelOutput(logits, graph_normalizer(logits), history, attention)

        rows = tf.range(self.rows)
        inputs = SearchInputs(step, tf.zeros_like(rows), rows, self.steps, 2)
        source = np.arange(self.rows, dtype=np.int32)[:, np.newaxis]
        uniform = uniform_numbers(seed, source, decoding.n_best, self.steps)
        found = find_hypotheses(inputs, decoding, SearchParameters.of_settings(decoding), tf.constant(uniform))
        return Hypotheses(*(field.numpy() for field in found))

    # brute force

    def score(self, row: int, sequence: Sequence[int]) -> float:
        """log P(sequence) of an utterance."""
        history, score = 1, 0.0
        for word in sequence:
            score += float(self.log_probabilities[row, history % self.logits.shape[1], word])
            history = history * self.words + word
        return score

    def all_sequences(self) -> Sequences:
        """All possible replies: ended by EOS, or cut at the step limit."""
        words = [word for word in range(self.words) if word not in (PAD, GO, EOS)]
        ended = [(*s, EOS) for n in range(self.steps) for s in itertools.product(words, repeat=n)]
        return ended + list(itertools.product(words, repeat=self.steps))


class LastWordModel:
    """An engine whose next word depends only on the last one. logits: [utterances, words, next words]."""

    def __init__(self, logits: np.ndarray) -> None:
        self.logits = logits.astype(np.float32)

    def start(self, source: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return source[:, 0]

    def step(self, utterances: np.ndarray, request: StepRequest) -> tuple[StepOutput, np.ndarray]:
        utterances = utterances[request.parents]
        logits = self.logits[utterances, request.words]
        return choose_words(logits, log_normalizer(logits), np.zeros([len(logits), 0]), request), utterances


def sequences(hypotheses: Hypotheses, row: int) -> Sequences:
    """The words of the hypotheses of an utterance that exist."""
    existing = [n for n in range(hypotheses.scores.shape[1]) if hypotheses.scores[row, n] > NEG_INF]
    return [tuple(hypotheses.words[row, n, : hypotheses.lengths[row, n]].tolist()) for n in existing]
