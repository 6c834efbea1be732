"""Replies of a model: a search over the model's decoder step, compiled once."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding.beam import beam_search
from seq2seq_chat.decoding.greedy import greedy_search
from seq2seq_chat.decoding.hypotheses import Hypotheses, Step, StepFunction, log_normalizer
from seq2seq_chat.decoding.restrictions import restrictions
from seq2seq_chat.decoding.sampling import likelier_words, sampling_search, uniform_draws
from seq2seq_chat.model.encoder import Encoded
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
        drawn = decoding.n_best if decoding.method == "sample" else 0
        self._width = decoding.beam_width if decoding.method == "beam" else max(1, drawn)
        self._draws = (drawn, model.config.decoder_steps)
        self._compiled = tf.function(
            self.search,
            autograph=False,
            input_signature=[
                tf.TensorSpec([None, model.config.encoder_steps], tf.int32),
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([None, *self._draws], tf.float64),
            ],
        )

    def __call__(self, source: np.ndarray, lengths: np.ndarray, seed: Optional[int] = None) -> Hypotheses:
        """source: ids int32 [n, source steps], lengths: int32 [n] → hypotheses of numpy arrays, [n, n_best, …].

        ``seed`` is for sampling; without one it is that of the settings, or another one every time.
        """
        parts = list(self.in_parts(source, lengths, seed))
        return Hypotheses(*(np.concatenate(field) for field in zip(*parts, strict=True)))

    def in_parts(self, source: np.ndarray, lengths: np.ndarray, seed: Optional[int] = None) -> Iterator[Hypotheses]:
        """The same a few utterances at a time, so that the memory needed does not grow with their number."""
        size = max(1, ROWS_AT_ONCE // self._width)
        seed = self._decoding.seed if seed is None else seed
        seed = secrets.randbits(31) if seed is None else seed
        for start in range(0, max(1, len(source)), size):
            rows = slice(start, start + size)
            draws = uniform_draws(seed, source[rows], *self._draws)
            found = self._compiled(tf.constant(source[rows], tf.int32), tf.constant(lengths[rows], tf.int32), draws)
            yield Hypotheses(*(field.numpy() for field in found))

    def search(self, source: tf.Tensor, lengths: tf.Tensor, draws: Optional[tf.Tensor] = None) -> Hypotheses:
        """The search itself, for graphs that hold more than it; ``draws`` are for sampling."""
        model, config, decoding = self._model, self._model.config, self._decoding
        encoded = model.encode(source, lengths)
        if (decoding.unrolling or config.unrolling) == "dynamic" and decoding.dynamic_can:
            return self._dynamic(encoded)
        state, memory = model.start(encoded)
        what: dict[str, Any] = {
            "step": model_step(model),
            "state": state,
            "memory": () if memory is None else memory,
            "batch": tf.shape(source)[0],
            "steps": config.decoder_steps,
            "source_steps": config.encoder_steps if memory is not None else 0,
            "restrictions": restrictions(decoding),
        }
        if decoding.method == "greedy":
            return greedy_search(**what)
        if decoding.method == "sample":
            choose = likelier_words(decoding.temperature, decoding.top_k, decoding.top_p)
            return sampling_search(**what, draws=draws, choose=choose)
        return beam_search(
            **what,
            width=decoding.beam_width,
            n_best=decoding.n_best,
            length_penalty=decoding.length_penalty,
            groups=decoding.beam_groups,
            diversity=decoding.group_diversity,
        )

    def _dynamic(self, encoded: Encoded) -> Hypotheses:
        from seq2seq_chat.decoding.dynamic import DynamicDecoder  # the addons are imported where they are asked for

        return DynamicDecoder(self._model).search(encoded, self._decoding)


def model_step(model: Seq2Seq) -> StepFunction:
    """The model's decoder as a search sees it."""

    def step(words: tf.Tensor, state: Any, memory: Any) -> Step:
        logits, state, attention = model.step(words, state, memory or None)
        if attention is None:
            attention = tf.zeros([tf.shape(words)[0], 0])
        return Step(logits, log_normalizer(logits), state, attention)

    return step
