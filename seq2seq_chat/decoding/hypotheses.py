"""What a search works on and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf


class Step(NamedTuple):
    """What the model says about the next word of every row."""

    log_probabilities: tf.Tensor  # [rows, vocabulary]; -inf for words that must not come
    state: Any  # nested tensors [rows, …], to be given to the next step
    attention: tf.Tensor  # [rows, source steps]; source steps may be 0


StepFunction = Callable[[tf.Tensor, Any], Step]
"""(words: int32 [rows], state: nested tensors [rows, …]) → :class:`Step`."""


class Hypotheses(NamedTuple):
    """The replies found for a batch of utterances, best first."""

    words: tf.Tensor  # int32 [batch, n, steps]; the end marker included, padded after it
    lengths: tf.Tensor  # int32 [batch, n]; words of each, the end marker included
    scores: tf.Tensor  # [batch, n]; sum of log-probabilities in nats; -inf: there is no such hypothesis
    ended: tf.Tensor  # bool [batch, n]; true: with the end marker, false: cut at the step limit
    attention: tf.Tensor  # [batch, n, steps, source steps]
