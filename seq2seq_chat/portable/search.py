"""What greedy, sampling and beam search over arrays share, and the search that never goes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from seq2seq_chat.data.vocabulary import EOS, GO, PAD
from seq2seq_chat.decoding.result import NEG_INF, Hypotheses
from seq2seq_chat.portable.logit_rules import LogitRule
from seq2seq_chat.portable.steps import Arrays, StepFunction, StepOutput, take_rows, top_k_words


class SearchInputs(NamedTuple):
    """A model, its state before the first word of each utterance, and the limits of a search."""

    step: StepFunction
    batch: int  # utterances
    state: Arrays
    memory: Arrays  # what the model attends to
    steps: int  # maximum length of a reply, including the end marker
    source_steps: int  # width of the attention, which may be 0
    logit_rules: Sequence[LogitRule] = ()
    on_step: Callable[[Hypotheses], bool] = lambda _: True
    """Called with what the search would return if it ended after each step; whether to continue."""


class ActiveHypotheses(NamedTuple):
    """Rows among [batch · width], the hypotheses of an utterance side by side, and the model's arrays for them."""

    rows: np.ndarray  # [active], ascending
    state: Arrays
    memory: Arrays


ChooseWords = Callable[[StepOutput, np.ndarray, int], tuple[np.ndarray, np.ndarray]]
"""(step output, row of each active hypothesis, t) → log-probabilities and ids of the next words: [active]."""


def empty_hypotheses(scores: np.ndarray, steps: int, source_steps: int) -> Hypotheses:
    """Hypotheses before their first word. scores: [batch, n]; those of -inf do not exist."""
    return Hypotheses(
        words=np.full([*scores.shape, steps], PAD, np.int32),
        lengths=np.zeros(scores.shape, np.int32),
        scores=scores.astype(np.float32),
        ended=scores == NEG_INF,
        attention=np.zeros([*scores.shape, steps, source_steps], np.float32),
        ranks=scores.astype(np.float32),
    )


def step_active(inputs: SearchInputs, active: ActiveHypotheses, words: np.ndarray, t: int) -> StepOutput:
    """The model's output for the active hypotheses under the logit rules. words: of all hypotheses, [rows, steps]."""
    words = words[active.rows, :t]
    previous = words[:, -1] if t else np.full(len(active.rows), GO, np.int32)
    output = inputs.step(previous, active.state, active.memory)
    for rule in inputs.logit_rules:
        output = rule(output, words)
    return output


def next_active(
    active: ActiveHypotheses, state: Arrays, running: np.ndarray, parents: np.ndarray, memory: Arrays, width: int
) -> ActiveHypotheses:
    """The hypotheses of the next step, with the state of their parents.

    Args:
        active: The hypotheses of this step.
        state: Their next state.
        running: The hypotheses that need another word, bool [batch · width].
        parents: The hypothesis that each one continues, [batch · width]; active for a running one.
        memory: [batch, …] each.
        width: Hypotheses of each utterance.
    """
    rows = np.flatnonzero(running)
    positions = np.zeros(len(running), np.int64)
    positions[active.rows] = np.arange(len(active.rows))
    order = positions[parents[rows]]
    if not np.array_equal(order, np.arange(len(active.rows))):
        state = take_rows(state, order)
    # the hypotheses of an utterance share its memory
    if not np.array_equal(rows // width, active.rows // width):
        memory = take_rows(memory, rows // width)
    else:
        memory = active.memory
    return ActiveHypotheses(rows, state, memory)


def most_probable_words(output: StepOutput, rows: np.ndarray, t: int) -> tuple[np.ndarray, np.ndarray]:
    """The choice of greedy search."""
    log_probabilities, words = top_k_words(output, 1)
    return log_probabilities[:, 0], words[:, 0]


def sequential_search(inputs: SearchInputs, choose: ChooseWords = most_probable_words) -> Hypotheses:
    """One hypothesis per utterance, extended by the words that ``choose`` returns up to the end marker."""
    rows = np.arange(inputs.batch)
    hypotheses = empty_hypotheses(np.zeros([inputs.batch, 1]), inputs.steps, inputs.source_steps)
    words, lengths, scores, ended, attention, _ = (field[:, 0] for field in hypotheses)
    active = ActiveHypotheses(rows, inputs.state, inputs.memory)
    for t in range(inputs.steps):
        if not len(active.rows):
            break
        output = step_active(inputs, active, words, t)
        log_probabilities, chosen = choose(output, active.rows, t)
        words[active.rows, t] = chosen
        lengths[active.rows] += 1
        scores[active.rows] += log_probabilities
        attention[active.rows, t, : output.attention.shape[1]] = output.attention
        ended[active.rows] = (chosen == EOS) | (scores[active.rows] == NEG_INF)
        active = next_active(active, output.state, ~ended, rows, inputs.memory, 1)
        if not inputs.on_step(hypotheses):
            break
    return hypotheses._replace(ranks=hypotheses.scores.copy())
