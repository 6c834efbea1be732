"""The exact loss of a language model on a text: full softmax, no dropout, the state carried from the first token."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from seq2seq_chat.model.language_model import LanguageModel, States

MAX_STREAMS = 64
MIN_LENGTH = 512  # tokens of a stream: in shorter ones, too much is read twice
MAX_STEPS = 256  # read in one call
MAX_LOGITS = 30e6  # rows times steps times vocabulary size: bounds the memory of the full softmax
WARM_UP = 256  # tokens before a stream, from which its first state is estimated
TOLERANCE = 1e-4  # between the units of two states that count as equal


class TextScore(NamedTuple):
    """How well a model predicts a text, from its second token on."""

    nats: float
    tokens: int
    correct: int  # tokens that are the most probable ones


class TextScorer:
    """Scores texts, many tokens at a time.

    A text is divided into streams that are read in parallel, although each starts from the state in which the one
    before it ends. That state is estimated first, from a few hundred tokens. Then everything is read, and read again
    from better states until every stream starts where the one before has ended. A recurrent network forgets, so this
    hardly ever takes more than one pass.

    Args:
        model: its variables may change between calls.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        ids = tf.TensorSpec([None, None], tf.int32)
        self._graph = tf.function(self._score, autograph=False, input_signature=[ids, ids, state_specs(model)])
        self.passes = 0  # over the last text

    def score(self, tokens: npt.NDArray[Any]) -> TextScore:
        """Score a text. tokens: ids [n].

        Raises:
            ValueError: there are fewer than two tokens.
        """
        predicted = len(tokens) - 1
        if predicted < 1:
            raise ValueError("a text needs at least two tokens")
        count = max(1, min(MAX_STREAMS, predicted // MIN_LENGTH))
        length, rest = divmod(predicted, count)
        starts = np.arange(count) * length
        # the last stream is longer than the others by the rest, which is read at the end
        states = self._estimate(tokens, starts)
        for self.passes in range(1, count + 1):
            score, ends = self._read(tokens, starts, length, states)
            if _are_equal(states, ends):
                break
            states = _shifted(ends)
        last = tf.nest.map_structure(lambda state: state[-1:], ends)
        tail, _ = self._read(tokens, starts[-1:] + length, rest, last)
        return TextScore(score.nats + tail.nats, predicted, score.correct + tail.correct)

    def _estimate(self, tokens: npt.NDArray[Any], starts: np.ndarray) -> States:
        """The states before each stream, from the tokens before it; zero before the first."""
        zero = tf.nest.map_structure(lambda state: state.numpy(), self._model.start(len(starts)))
        if len(starts) == 1:
            return zero
        _, ends = self._read(tokens, starts[1:] - WARM_UP, WARM_UP, tf.nest.map_structure(lambda s: s[1:], zero))
        return tf.nest.map_structure(lambda first, rest: np.concatenate([first[:1], rest]), zero, ends)

    def _read(
        self, tokens: npt.NDArray[Any], starts: np.ndarray, length: int, states: States
    ) -> tuple[TextScore, States]:
        """Read ``length`` tokens from each start; the score of those that follow, and the states at the end."""
        nats, correct = 0.0, 0
        steps = int(max(1, min(MAX_STEPS, MAX_LOGITS / self._model.vocabulary_size / len(starts))))
        for first in range(0, length, steps):
            positions = starts[:, np.newaxis] + np.arange(first, min(first + steps, length))
            inputs, targets = (tokens[positions + shift].astype(np.int32) for shift in (0, 1))
            some_nats, some_correct, states = self._graph(tf.constant(inputs), tf.constant(targets), states)
            nats, correct = nats + float(some_nats), correct + int(some_correct)
        return TextScore(nats, length * len(starts), correct), tf.nest.map_structure(np.asarray, states)

    def _score(self, inputs: tf.Tensor, targets: tf.Tensor, states: States) -> tuple[tf.Tensor, tf.Tensor, States]:
        hidden, states = self._model.read(inputs, states)
        words = tf.reshape(tf.transpose(targets), [-1])
        logits = self._model.output.logits(tf.reshape(hidden, [-1, hidden.shape[-1]]))
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(words, logits)
        correct = tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), words)
        return tf.reduce_sum(nats), tf.reduce_sum(tf.cast(correct, tf.int32)), states


def state_specs(model: LanguageModel) -> Any:
    """The types of the states of any number of rows."""
    hidden = tf.TensorSpec([None, model.config.hidden_size], tf.float32)
    return tf.nest.map_structure(lambda _: hidden, model.start(1))


def _shifted(ends: States) -> States:
    """The states before each stream: zero, then those in which the one before has ended."""
    return tf.nest.map_structure(lambda state: np.concatenate([np.zeros_like(state[:1]), state[:-1]]), ends)


def _are_equal(states: States, ends: States) -> bool:
    """Whether each stream started from the state in which the one before has ended."""
    pairs = zip(tf.nest.flatten(states), tf.nest.flatten(_shifted(ends)), strict=True)
    return all(np.max(np.abs(one - other)) <= TOLERANCE for one, other in pairs)
