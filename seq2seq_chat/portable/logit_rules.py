"""Constraints on the next word; those of ``decoding/logit_rules.py``, which explains them, for arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from seq2seq_chat.data.vocabulary import EOS, PAD
from seq2seq_chat.decoding.parameters import SearchParameters, forbidden_ids
from seq2seq_chat.decoding.result import NEG_INF
from seq2seq_chat.portable.steps import StepOutput, log_normalizer

LogitRule = Callable[[StepOutput, np.ndarray], StepOutput]
"""(the model's output, whose logits may be changed in place; words so far: int32 [rows, t]) → what the search sees."""


def configured_rules(parameters: SearchParameters) -> list[LogitRule]:
    """The rules that the settings require, in the order in which they apply."""
    rules: list[LogitRule] = []
    if parameters.repetition_penalty != 1:
        rules.append(repetition_penalty_rule(float(parameters.repetition_penalty)))
    rules.append(forbid(forbidden_ids(bool(parameters.allow_unknown))))
    if parameters.min_length > 0:
        rules.append(min_length_rule(int(parameters.min_length)))
    if parameters.no_repeat_ngram_size > 0:
        rules.append(no_repeat_ngram_rule(int(parameters.no_repeat_ngram_size)))
    return rules


def forbid(ids: list[int]) -> LogitRule:
    """Forbid words with these ids."""

    def rule(output: StepOutput, words: np.ndarray) -> StepOutput:
        output.logits[:, ids] = NEG_INF
        return output

    return rule


def min_length_rule(min_length: int) -> LogitRule:
    """Forbid the end marker before a reply has ``min_length`` words."""

    def rule(output: StepOutput, words: np.ndarray) -> StepOutput:
        if words.shape[1] < min_length:
            output.logits[:, EOS] = NEG_INF
        return output

    return rule


def no_repeat_ngram_rule(n: int) -> LogitRule:
    """Forbid words that would repeat an n-gram, except for the end marker."""

    def rule(output: StepOutput, words: np.ndarray) -> StepOutput:
        t = words.shape[1]
        if t >= n:
            ngrams = np.lib.stride_tricks.sliding_window_view(words, n, axis=1)
            last = words[:, np.newaxis, t - n + 1 :]
            rows, positions = np.nonzero((ngrams[:, :, :-1] == last).all(axis=2))
            ids = ngrams[rows, positions, -1]
            output.logits[rows[ids != EOS], ids[ids != EOS]] = NEG_INF
        return output

    return rule


def repetition_penalty_rule(penalty: float) -> LogitRule:
    """Make earlier words less probable: positive logits are divided by the penalty, negative ones multiplied."""

    def rule(output: StepOutput, words: np.ndarray) -> StepOutput:
        rows, positions = np.nonzero((words != PAD) & (words != EOS))
        earlier = rows, words[rows, positions]
        logits, factor = output.logits[earlier], np.float32(penalty)
        output.logits[earlier] = np.where(logits > 0, logits / factor, logits * factor)
        return output._replace(normalizer=log_normalizer(output.logits))

    return rule
