"""Settings of a search that are inputs of its graph, and the constraints on the next word that some of them require.

A forbidden word gets a logit of -inf, but probabilities are not renormalized: the score of a hypothesis is the
probability that the model assigns to its words, whatever was forbidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding.search import GraphLogitRule, ModelOutput, log_normalizer
from seq2seq_chat.search.engine import NEG_INF, NO_WORD, WordDistribution
from seq2seq_chat.search.logit_rules import forbidden_ids
from seq2seq_chat.text.vocabulary import EOS, GO, PAD, UNKNOWN

Scalar: TypeAlias = "float | tf.Tensor"
Condition: TypeAlias = "bool | tf.Tensor"
Result = TypeVar("Result")

BEAM_WIDTHS = (5, 10, 20, 50, 100, 200, 500, 1000)  # that are compiled; other widths use a part of the next one


class SearchParameters(NamedTuple):
    """The settings of :class:`Decoding` with these names, as numbers or scalar tensors."""

    beam_width: Scalar
    n_best: Scalar
    length_penalty: Scalar
    diversity_penalty: Scalar
    temperature: Scalar
    top_k: Scalar
    top_p: Scalar
    min_length: Scalar
    no_repeat_ngram_size: Scalar
    repetition_penalty: Scalar
    allow_unknown: Condition

    @classmethod
    def of_settings(cls, decoding: Decoding) -> SearchParameters:
        """The values of settings."""
        values = {name: getattr(decoding, name) for name in cls._fields}
        return cls(**(values | WordDistribution.of_settings(decoding)._asdict()))

    def arrays(self) -> list[np.generic]:
        """The values as inputs of a graph with the signature :meth:`specs`."""
        return [spec.dtype.as_numpy_dtype(value) for spec, value in zip(SearchParameters.specs(), self, strict=True)]

    @classmethod
    def specs(cls) -> list[tf.TensorSpec]:
        """The types of the scalars, in the order of the fields."""
        types = {bool: tf.bool, int: tf.int32, float: tf.float32}
        defaults = cls.of_settings(Decoding())
        return [tf.TensorSpec([], types[type(value)], name) for name, value in zip(cls._fields, defaults, strict=True)]


def graph_settings(decoding: Decoding) -> Decoding:
    """Settings that are the same for all searches with the same graph: defaults replace the parameters.

    The groups of a diverse beam are part of its graph, and with them its exact width. The dynamic decoder has no
    parameters.
    """
    if decoding.method != "beam":
        return Decoding(method=decoding.method, unrolling="built_in")
    width = decoding.beam_width
    if decoding.beam_groups == 1:
        width = next(compiled for compiled in BEAM_WIDTHS if width <= compiled)
    return Decoding(
        method="beam", beam_width=width, beam_groups=decoding.beam_groups, stop=decoding.stop, unrolling="built_in"
    )


def choose(condition: Condition, yes: Callable[[], Result], no: Callable[[], Result]) -> Result:
    """``yes()`` if the condition holds, else ``no()``; the graph has only one of them if the condition is constant."""
    if isinstance(condition, bool):
        return yes() if condition else no()
    result: Result = tf.cond(condition, yes, no)
    return result


def configured_rules(parameters: SearchParameters) -> list[GraphLogitRule]:
    """The rules that the settings require, in the order in which they apply.

    Parameters that are tensors decide at each step whether their rule applies.
    """
    penalty, n = parameters.repetition_penalty, parameters.no_repeat_ngram_size
    rules = (
        (penalty != 1, partial(penalize_repetition, penalty)),
        (True, partial(forbid, forbidden_words(parameters.allow_unknown))),
        (parameters.min_length > 0, partial(require_length, parameters.min_length)),
        (n > 0, partial(forbid_repeated_ngrams, n)),
    )
    return [
        rule if condition is True else apply_if(condition, rule) for condition, rule in rules if condition is not False
    ]


def apply_if(condition: Condition, rule: GraphLogitRule) -> GraphLogitRule:
    """A rule that applies under a condition and changes the logits and their normalizer."""

    def conditional(output: ModelOutput, words: tf.Tensor, t: tf.Tensor) -> ModelOutput:
        def changed() -> tuple[tf.Tensor, tf.Tensor]:
            result = rule(output, words, t)
            return result.logits, result.normalizer

        logits, normalizer = choose(condition, changed, lambda: (output.logits, output.normalizer))
        return output._replace(logits=logits, normalizer=normalizer)

    return conditional


def forbidden_words(allow_unknown: Condition) -> Sequence[Any]:
    """See :func:`forbidden_ids`; a tensor decides in the graph."""
    if isinstance(allow_unknown, bool):
        return forbidden_ids(allow_unknown)
    return [PAD, GO, tf.where(allow_unknown, NO_WORD, UNKNOWN)]


def forbid(ids: Sequence[Any], output: ModelOutput, words: tf.Tensor, t: tf.Tensor) -> ModelOutput:
    """Forbid words with these ids."""
    return output._replace(forbidden=(*output.forbidden, *ids))


def require_length(min_length: Scalar, output: ModelOutput, words: tf.Tensor, t: tf.Tensor) -> ModelOutput:
    """Forbid the end marker before a reply has ``min_length`` words."""
    end = tf.one_hot(EOS, output.logits.shape[-1], on_value=NEG_INF, off_value=0.0)
    return output._replace(logits=tf.where(t < min_length, output.logits + end, output.logits))


def forbid_repeated_ngrams(n: Scalar, output: ModelOutput, words: tf.Tensor, t: tf.Tensor) -> ModelOutput:
    """Forbid words that would repeat an n-gram; see :func:`seq2seq_chat.search.logit_rules.forbid_repeated_ngrams`."""
    # a word is forbidden if the n - 1 words before it are also the last ones
    positions, back = tf.range(words.shape[1]), tf.range(1, tf.minimum(n, words.shape[1] + 1))
    before = tf.gather(words, tf.maximum(positions[:, tf.newaxis] - back, 0), axis=1)
    last = tf.gather(words, tf.maximum(t - back, 0), axis=1)
    same = tf.reduce_all(before == last[:, tf.newaxis], axis=2)
    repeated = tf.where(same & (positions >= n - 1) & (positions < t))
    rows, ids = tf.cast(repeated[:, 0], tf.int32), tf.gather_nd(words, repeated)
    forbidden = tf.boolean_mask(tf.stack([rows, ids], axis=1), ids != EOS)
    masked = tf.fill([tf.shape(forbidden)[0]], NEG_INF)
    return output._replace(logits=tf.tensor_scatter_nd_min(output.logits, forbidden, masked))


def penalize_repetition(penalty: Scalar, output: ModelOutput, words: tf.Tensor, t: tf.Tensor) -> ModelOutput:
    """Make earlier words less probable; see :func:`seq2seq_chat.search.logit_rules.penalize_repetition`."""
    rows = tf.shape(words)[0]
    entries = tf.stack([tf.repeat(tf.range(rows), words.shape[1]), tf.reshape(words, [-1])], axis=1)
    entries = tf.boolean_mask(entries, (entries[:, 1] != PAD) & (entries[:, 1] != EOS))
    logits = penalized_logits(output.logits, entries, penalty)
    return output._replace(logits=logits, normalizer=log_normalizer(logits))


def penalized_logits(logits: tf.Tensor, entries: tf.Tensor, penalty: Scalar) -> tf.Tensor:
    """Logits [rows, vocabulary]; entries, (row, word) [n, 2], are divided by the penalty, negative ones multiplied."""
    values = tf.gather_nd(logits, entries)
    values = tf.where(values > 0, values / penalty, values * penalty)
    return tf.tensor_scatter_nd_update(logits, entries, values)
