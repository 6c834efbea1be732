"""Sampling over arrays; see ``decoding/sampling.py``, which explains it."""

from __future__ import annotations

import numpy as np

from seq2seq_chat.decoding.parameters import ALL_PROBABILITY, ALL_WORDS, SearchParameters
from seq2seq_chat.decoding.result import NEG_INF, Hypotheses
from seq2seq_chat.portable.search import SearchInputs, sequential_search
from seq2seq_chat.portable.steps import StepOutput, softmax, take_rows, top_k


def sampling_search(inputs: SearchInputs, uniform: np.ndarray, parameters: SearchParameters) -> Hypotheses:
    """Several sampled hypotheses for each utterance, in the order in which they were sampled.

    Args:
        inputs: The model and its limits.
        uniform: Random numbers in [0, 1), [batch, n, steps].
        parameters: Temperature, top_k and top_p.
    """
    batch, n, steps = uniform.shape
    flat = uniform.reshape(batch * n, steps)

    def choose(output: StepOutput, rows: np.ndarray, t: int) -> tuple[np.ndarray, np.ndarray]:
        words = sample_words(truncated_softmax(output.logits, parameters), flat[rows, t])
        return output.logits[np.arange(len(rows)), words] - output.normalizer, words

    repeated = np.repeat(np.arange(batch), n)
    state, memory = take_rows(inputs.state, repeated), take_rows(inputs.memory, repeated)

    def by_utterance(rows: Hypotheses) -> Hypotheses:
        return Hypotheses(*(field.reshape(batch, n, *field.shape[2:]) for field in rows))

    repeated_inputs = inputs._replace(
        batch=batch * n, state=state, memory=memory, on_step=lambda rows: inputs.on_step(by_utterance(rows))
    )
    return by_utterance(sequential_search(repeated_inputs, choose))


def truncated_softmax(logits: np.ndarray, parameters: SearchParameters) -> np.ndarray:
    """The distribution to sample from, [rows, vocabulary]; see the function of that name in ``decoding/``."""
    scaled = logits / np.float32(parameters.temperature)
    if parameters.top_k >= ALL_WORDS and parameters.top_p >= ALL_PROBABILITY:
        return softmax(scaled)
    words = top_k(scaled, min(int(parameters.top_k), scaled.shape[1]))
    largest = np.take_along_axis(scaled, words, axis=1)
    sums = np.cumsum(softmax(largest), axis=1)
    before = np.pad(sums[:, :-1], [(0, 0), (1, 0)])
    kept = softmax(np.where(before < parameters.top_p, largest, NEG_INF))
    truncated = np.zeros_like(scaled)
    np.put_along_axis(truncated, words, kept, axis=1)
    return truncated


def sample_words(probabilities: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Sample by inverting the cumulative distribution. [rows, vocabulary], [rows] → ids [rows]."""
    cumulative = np.cumsum(probabilities, axis=1, dtype=np.float64)
    points = uniform * cumulative[:, -1]
    words = [row.searchsorted(point, side="right") for row, point in zip(cumulative, points, strict=True)]
    return np.minimum(np.array(words, int), probabilities.shape[1] - 1)
