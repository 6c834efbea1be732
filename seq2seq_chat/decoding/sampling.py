"""Sampling: the next word is drawn from the model's distribution, or from the likelier part of it.

The draws are a function of (seed, utterance): whoever asks the same with the same seed gets the same replies, alone or
in a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from seq2seq_chat.decoding.hypotheses import Hypotheses, Step, StepFunction, allowed_logits
from seq2seq_chat.decoding.restrictions import NEVER
from seq2seq_chat.decoding.word_by_word import word_by_word


def sampling_search(
    step: StepFunction,
    state: Any,
    memory: Any = (),
    *,
    draws: tf.Tensor,
    batch: tf.Tensor,
    choose: Callable[[tf.Tensor], tf.Tensor],
    **limits: Any,
) -> Hypotheses:
    """Several hypotheses for each utterance, drawn word by word, the most probable first.

    Args:
        draws: numbers uniform in [0, 1) from which the words follow, [batch, n, steps]; n hypotheses are drawn.
        choose: the distribution to draw from, see :func:`likelier_words`.
        step, state, memory, batch and limits: as for :func:`word_by_word`.
    """
    n = draws.shape[1]
    flat = tf.reshape(draws, [-1, draws.shape[2]])

    def draw(said: Step, rows: tf.Tensor, t: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        probabilities = choose(allowed_logits(said))
        words = invert(probabilities, tf.gather(tf.gather(flat, rows), t, axis=1))
        return tf.gather(said.logits, words, batch_dims=1) - said.normalizer, words

    def for_each(parts: Any) -> Any:
        return tf.nest.map_structure(lambda part: tf.repeat(part, n, axis=0), parts)

    found = word_by_word(step, for_each(state), for_each(memory), draw, batch=batch * n, **limits)
    found = Hypotheses(*(tf.reshape(part, tf.concat([[batch, n], tf.shape(part)[2:]], axis=0)) for part in found))
    order = tf.math.top_k(found.scores, n).indices
    return Hypotheses(*(tf.gather(part, order, batch_dims=1) for part in found))


def likelier_words(
    temperature: float, top_k: Optional[int], top_p: Optional[float]
) -> Callable[[tf.Tensor], tf.Tensor]:
    """The distribution to draw from: logits [rows, vocabulary] → probabilities [rows, vocabulary].

    softmax(logits / temperature), of which the ``top_k`` most probable words are kept (Fan et al. 2018), and of these
    the fewest whose probabilities add up to at least ``top_p`` (Holtzman et al. 2020); the rest is divided by its sum.
    Of equally probable words those with the lowest ids are kept.
    """

    def distribution(logits: tf.Tensor) -> tf.Tensor:
        logits = logits / temperature
        vocabulary = logits.shape[-1]
        if top_k is None and top_p is None:
            return tf.nn.softmax(logits)
        best, words = tf.math.top_k(logits, min(top_k or vocabulary, vocabulary))
        probabilities = tf.nn.softmax(best)
        if top_p is not None:
            before = tf.cumsum(probabilities, axis=1, exclusive=True)
            probabilities = tf.nn.softmax(tf.where(before < top_p, best, NEVER))
        rows = tf.tile(tf.range(tf.shape(logits)[0])[:, tf.newaxis], [1, best.shape[1]])
        return tf.scatter_nd(tf.stack([rows, words], axis=2), probabilities, tf.shape(logits))

    return distribution


def invert(probabilities: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """The word in whose part of the line from 0 to 1 a draw falls. [rows, vocabulary], [rows] → int32 [rows].

    A word of probability 0 has no part, not even where rounding leaves the sum a little below 1.
    """
    upper = tf.cumsum(tf.cast(probabilities, tf.float64), axis=1)
    points = tf.cast(draws, tf.float64) * upper[:, -1]
    return tf.searchsorted(upper, points[:, tf.newaxis], side="right")[:, 0]


def uniform_draws(seed: int, source: np.ndarray, n: int, steps: int) -> np.ndarray:
    """The draws for utterances, float64 in [0, 1). source: ids int32 [batch, source steps] → [batch, n, steps]."""
    return (
        np.stack([np.random.default_rng([seed, *row.tolist()]).random([n, steps]) for row in source])
        if len(source)
        else np.zeros([0, n, steps])
    )
