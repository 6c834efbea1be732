"""Constraints on the next word: changes to the model's logits before a search sees them.

A forbidden word gets a logit of -inf, but probabilities are not renormalized: the score of a hypothesis is the
probability that the model assigns to its words, whatever was forbidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.data.vocabulary import EOS, GO, PAD, UNKNOWN
from seq2seq_chat.decoding.hypotheses import NEG_INF, StepOutput, log_normalizer
from seq2seq_chat.decoding.parameters import Scalar, SearchParameters

LogitRule = Callable[[StepOutput, tf.Tensor, tf.Tensor], StepOutput]
"""(the model's output, words so far: int32 [rows, steps], their number: scalar) → the output the search sees."""


def configured_rules(decoding: Decoding, parameters: SearchParameters) -> list[LogitRule]:
    """The rules that the settings require, in the order in which they apply, with the values of parameters."""
    rules: list[LogitRule] = []
    if decoding.repetition_penalty != 1:
        rules.append(repetition_penalty_rule(parameters.repetition_penalty))
    rules.append(forbid(forbidden_words(decoding)))
    if decoding.min_length:
        rules.append(min_length_rule(parameters.min_length))
    if decoding.no_repeat_ngram_size:
        rules.append(no_repeat_ngram_rule(decoding.no_repeat_ngram_size))
    return rules


def forbidden_words(decoding: Decoding) -> list[int]:
    """Ids that never occur in a reply: padding, the start marker and, unless allowed, unknown words."""
    return [PAD, GO] if decoding.allow_unknown else [PAD, GO, UNKNOWN]


def apply_rules(rules: Sequence[LogitRule], output: StepOutput, words: tf.Tensor, t: tf.Tensor) -> StepOutput:
    """Apply all rules in order. words: those so far, int32 [rows, steps], t: their number."""
    for rule in rules:
        output = rule(output, words, t)
    return output


def forbid(ids: Sequence[int]) -> LogitRule:
    """Forbid words with these ids."""

    def rule(output: StepOutput, words: tf.Tensor, t: tf.Tensor) -> StepOutput:
        return output._replace(forbidden=(*output.forbidden, *ids))

    return rule


def min_length_rule(min_length: Scalar) -> LogitRule:
    """Forbid the end marker before a reply has ``min_length`` words."""

    def rule(output: StepOutput, words: tf.Tensor, t: tf.Tensor) -> StepOutput:
        end = tf.one_hot(EOS, output.logits.shape[-1], on_value=NEG_INF, off_value=0.0)
        return output._replace(logits=tf.where(t < min_length, output.logits + end, output.logits))

    return rule


def no_repeat_ngram_rule(n: int) -> LogitRule:
    """Forbid words that would repeat an n-gram (Paulus et al. 2018, section 2.5). The end marker is always allowed."""

    def rule(output: StepOutput, words: tf.Tensor, t: tf.Tensor) -> StepOutput:
        steps = words.shape[1]
        if steps < n:
            return output
        starts = steps - n + 1
        # find earlier occurrences of the last n - 1 words: the words after them are forbidden
        matches = tf.ones([tf.shape(words)[0], starts], tf.bool) & (tf.range(starts) + n - 1 < t)
        for k in range(n - 1):
            last = tf.gather(words, tf.maximum(t - (n - 1) + k, 0), axis=1)
            matches &= words[:, k : k + starts] == last[:, tf.newaxis]
        matches &= t >= n - 1
        following = words[:, n - 1 :]
        positions = tf.where(matches)
        forbidden = tf.stack([tf.cast(positions[:, 0], tf.int32), tf.gather_nd(following, positions)], axis=1)
        forbidden = tf.boolean_mask(forbidden, forbidden[:, 1] != EOS)
        masked = tf.fill([tf.shape(forbidden)[0]], NEG_INF)
        return output._replace(logits=tf.tensor_scatter_nd_min(output.logits, forbidden, masked))

    return rule


def repetition_penalty_rule(penalty: Scalar) -> LogitRule:
    """Make earlier words less probable: positive logits are divided by the penalty, negative ones multiplied.

    Source: Keskin et al. 2019, section 4.1, with the usual correction for negative logits. Unlike the other rules this
    one changes the probabilities, and with them the scores.
    """

    def rule(output: StepOutput, words: tf.Tensor, t: tf.Tensor) -> StepOutput:
        rows = tf.shape(words)[0]
        indices = tf.stack([tf.repeat(tf.range(rows), words.shape[1]), tf.reshape(words, [-1])], axis=1)
        indices = tf.boolean_mask(indices, (indices[:, 1] != PAD) & (indices[:, 1] != EOS))
        logits = tf.gather_nd(output.logits, indices)
        logits = tf.where(logits > 0, logits / penalty, logits * penalty)
        penalized = tf.tensor_scatter_nd_update(output.logits, indices, logits)
        return output._replace(logits=penalized, normalizer=log_normalizer(penalized))

    return rule
