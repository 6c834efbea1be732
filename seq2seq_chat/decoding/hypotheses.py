"""What a search works on and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from seq2seq_chat.corpus.vocabulary import PAD


class Step(NamedTuple):
    """What the model says about the next word of every row: log p(word) = logit - normalizer.

    They are not subtracted for all words of the vocabulary, as searches look at the best few only.
    """

    logits: tf.Tensor  # [rows, vocabulary]
    normalizer: tf.Tensor  # log Σ exp of the logits of all words: [rows]
    state: Any  # nested tensors [rows, …], to be given to the next step
    attention: tf.Tensor  # [rows, source steps]; source steps may be 0
    forbidden: Sequence[int] = ()  # ids of words that must not come, whatever their logits


StepFunction = Callable[[tf.Tensor, Any, Any], Step]
"""(words: int32 [rows], state: nested tensors [rows, …], memory: nested tensors [rows, …]) → :class:`Step`."""


class Hypotheses(NamedTuple):
    """The replies found for a batch of utterances, best first."""

    words: tf.Tensor  # int32 [batch, n, steps]; the end marker included, padded after it
    lengths: tf.Tensor  # int32 [batch, n]; words of each, the end marker included
    scores: tf.Tensor  # [batch, n]; sum of log-probabilities in nats; -inf: there is no such hypothesis
    ended: tf.Tensor  # bool [batch, n]; true: with the end marker, false: cut at the step limit
    attention: tf.Tensor  # [batch, n, steps, source steps]
    ranks: tf.Tensor  # [batch, n]; what they are ordered by: the scores, unless a setting weighs something else


def no_words_yet(first: tf.Tensor, steps: int, source_steps: int) -> Hypotheses:
    """Hypotheses before their first word. first: their scores, [batch, n]; those of -inf do not exist."""
    nothing = tf.zeros_like(first)
    return Hypotheses(
        words=tf.cast(nothing, tf.int32)[:, :, tf.newaxis] + tf.fill([steps], PAD),
        lengths=tf.cast(nothing, tf.int32),
        scores=first,
        ended=first == -float("inf"),
        attention=nothing[:, :, tf.newaxis, tf.newaxis] + tf.zeros([steps, source_steps]),
        ranks=first,
    )


def length_divisor(words: tf.Tensor, penalty: float) -> tf.Tensor:
    """((5 + words) / 6)^penalty: what scores are divided by, so that long hypotheses have a chance. Any shape.

    Source: Wu et al. 2016, equation 14. ``words`` are counted without the end marker.
    """
    return ((5.0 + tf.cast(words, tf.float32)) / 6.0) ** penalty


def found_before(words: tf.Tensor) -> tf.Tensor:
    """Which hypotheses have the same words as an earlier one. words: int32 [batch, n, steps] → bool [batch, n]."""
    n = words.shape[1]
    equal = tf.reduce_all(words[:, :, tf.newaxis] == words[:, tf.newaxis], axis=3)
    earlier = tf.linalg.band_part(tf.ones([n, n], tf.bool), -1, 0) & ~tf.eye(n, dtype=tf.bool)
    return tf.reduce_any(equal & earlier, axis=2)


BLOCKS = (128, 125, 100, 160, 96, 80, 64, 200, 256)  # sizes of the blocks in which the best words are searched


def best_words(step: Step, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The most probable next words of every row, best first, and of equal ones that with the lowest id first.

    Args:
        step: what the model says; a logit of -inf is of a word that must not come.
        count: how many words are wanted.

    Returns:
        log-probabilities: [rows, n], -inf where there is no further word, and ids: int32 [rows, n], where n is
        ``count`` or, if that is smaller, the size of the vocabulary.
    """
    vocabulary = step.logits.shape[-1]
    logits, words = _largest(step.logits, min(count + len(step.forbidden), vocabulary))
    for word in step.forbidden:  # cheaper than to change all logits
        logits = tf.where(words == word, -float("inf"), logits)
    best, places = tf.math.top_k(logits, min(count, vocabulary))
    return best - step.normalizer[:, tf.newaxis], tf.gather(words, places, batch_dims=1)


def allowed_logits(step: Step) -> tf.Tensor:
    """The logits, -inf for words that must not come: [rows, vocabulary]."""
    if not step.forbidden:
        return step.logits
    barred = tf.reduce_any(tf.range(step.logits.shape[-1])[:, tf.newaxis] == tf.constant(step.forbidden), axis=1)
    return tf.where(barred, -float("inf"), step.logits)


def log_normalizer(logits: tf.Tensor) -> tf.Tensor:
    """log Σ exp of every row: [rows, vocabulary] → [rows].

    By way of the most probable word, log Σ exp = logit - log p: the softmax is one fast kernel, where the usual way is
    four passes, and the largest probability is never too small for its logarithm. A search looks for the largest
    logits anyway.
    """
    largest, word = _largest(logits, 1)
    probability = tf.gather(tf.nn.softmax(logits), word, batch_dims=1)
    return (largest - tf.math.log(probability))[:, 0]


def _largest(values: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """``tf.math.top_k`` of [rows, n], faster where ``count`` is small.

    The largest values are in the blocks whose largest values are largest, at most ``count`` of them. To find these
    blocks is one pass over the values, and all that is left to do is to look into them.
    """
    size = values.shape[-1]
    block = next((block for block in BLOCKS if size % block == 0), size)
    if size < 4 * count * block:
        return tf.math.top_k(values, count)
    blocks = tf.reshape(values, [-1, size // block, block])
    chosen = tf.math.top_k(tf.reduce_max(blocks, axis=2), count).indices
    chosen = tf.sort(chosen)  # so that equal values keep their order
    ids = tf.reshape(chosen[:, :, tf.newaxis] * block + tf.range(block), [-1, count * block])
    inside = tf.reshape(tf.gather(blocks, chosen, batch_dims=1), [-1, count * block])
    best, places = tf.math.top_k(inside, count)
    return best, tf.gather(ids, places, batch_dims=1)
