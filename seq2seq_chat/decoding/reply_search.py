"""Replies of a model: a search over the model's decoder step, compiled once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.corpus.vocabulary import GO, PAD, UNKNOWN
from seq2seq_chat.decoding.beam import beam_search
from seq2seq_chat.decoding.greedy import greedy_search
from seq2seq_chat.decoding.hypotheses import Hypotheses, Step, StepFunction, log_normalizer
from seq2seq_chat.model.attention import Memory
from seq2seq_chat.model.seq2seq import Seq2Seq

ROWS_AT_ONCE = 640  # hypotheses decoded together: bounds the memory of the logits, [rows, vocabulary]


class ReplySearch:
    """Finds replies to encoded utterances, any number at once, with one compiled graph.

    Args:
        model: the trained model; its variables may change between calls, as they do while it is being trained.
        decoding: how to search.
    """

    def __init__(self, model: Seq2Seq, decoding: Decoding) -> None:
        self._model, self._decoding = model, decoding
        self._width = decoding.beam_width if decoding.method == "beam" else 1
        self._search = tf.function(
            self._trace,
            autograph=False,
            input_signature=[
                tf.TensorSpec([None, model.config.encoder_steps], tf.int32),
                tf.TensorSpec([None], tf.int32),
            ],
        )

    def __call__(self, source: np.ndarray, lengths: np.ndarray) -> Hypotheses:
        """source: ids int32 [n, source steps], lengths: int32 [n] → hypotheses of numpy arrays, [n, n_best, …]."""
        parts = list(self.in_parts(source, lengths))
        return Hypotheses(*(np.concatenate(field) for field in zip(*parts, strict=True)))

    def in_parts(self, source: np.ndarray, lengths: np.ndarray) -> Iterator[Hypotheses]:
        """The same a few utterances at a time, so that the memory needed does not grow with their number."""
        size = max(1, ROWS_AT_ONCE // self._width)
        for start in range(0, max(1, len(source)), size):
            rows = slice(start, start + size)
            found = self._search(tf.constant(source[rows], tf.int32), tf.constant(lengths[rows], tf.int32))
            yield Hypotheses(*(field.numpy() for field in found))

    def _trace(self, source: tf.Tensor, lengths: tf.Tensor) -> Hypotheses:
        model, config = self._model, self._model.config
        state, memory = model.start(model.encode(source, lengths))
        state = self._for_each_hypothesis(state)
        memory = None if memory is None else self._for_each_hypothesis(memory)
        limits: dict[str, Any] = {
            "batch": tf.shape(source)[0],
            "steps": config.decoder_steps,
            "source_steps": config.encoder_steps if memory is not None else 0,
            # padding and the start marker are never words of a reply
            "forbidden": [PAD, GO] if self._decoding.allow_unknown else [PAD, GO, UNKNOWN],
        }
        step = model_step(model, memory)
        if self._decoding.method == "greedy":
            return greedy_search(step, state, **limits)
        return beam_search(step, state, width=self._width, n_best=self._decoding.n_best, **limits)

    def _for_each_hypothesis(self, rows: Any) -> Any:
        """[batch, …] → [batch · width, …], the rows of an utterance side by side."""
        return tf.nest.map_structure(lambda part: tf.repeat(part, self._width, axis=0), rows)


def model_step(model: Seq2Seq, memory: Optional[Memory]) -> StepFunction:
    """The model's decoder as a search sees it."""

    def step(words: tf.Tensor, state: Any) -> Step:
        logits, state, attention = model.step(words, state, memory)
        if attention is None:
            attention = tf.zeros([tf.shape(words)[0], 0])
        return Step(logits, log_normalizer(logits), state, attention)

    return step
