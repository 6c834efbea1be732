"""Texts of a language model in TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import tensorflow as tf

from seq2seq_chat.decoding.methods import TruncatedSoftmax, sample_words, truncated_softmax
from seq2seq_chat.engines import States as StateArrays
from seq2seq_chat.model.execution import call_with_arrays
from seq2seq_chat.model.language_model import LanguageModel, States
from seq2seq_chat.model.matrix_copies import using_padded_copies
from seq2seq_chat.search.engine import ALTERNATIVES, NEG_INF, Block, BlockRequest

LIMIT_TYPES = (tf.float32, tf.int32, tf.float32)  # of temperature, top_k and top_p


class TensorFlowLanguageModel:
    """Compiles graphs that read, score and sample. The variables of the model may change between calls."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.vocabulary_size = model.vocabulary_size
        self._structure = model.start(1)
        self._states = [tf.TensorSpec([None, part.shape[1]], tf.float32) for part in tf.nest.flatten(self._structure)]
        ids = tf.TensorSpec([None, None], tf.int32)
        self._read = tf.function(
            lambda inputs, *states: self._read_tokens(inputs, states)[1],
            autograph=False,
            input_signature=[ids, *self._states],
        )
        self._score = tf.function(self._scores, autograph=False, input_signature=[ids, ids, *self._states])
        self._graphs: dict[tuple[tuple[int, ...], bool, bool], tf.function] = {}  # by the arguments of _graph

    def start(self, rows: int) -> StateArrays:
        """See :class:`LanguageModelEngine`, also for the other methods."""
        return [np.zeros([rows, spec.shape[1]], np.float32) for spec in self._states]

    def read(self, inputs: np.ndarray, states: StateArrays) -> StateArrays:
        return _arrays(call_with_arrays(self._read, inputs, *states))

    def score(self, inputs: np.ndarray, targets: np.ndarray, states: StateArrays) -> tuple[np.ndarray, StateArrays]:
        sums, states_after = call_with_arrays(self._score, inputs, targets, *states)
        return sums.numpy(), _arrays(states_after)

    def sample_block(self, states: StateArrays, request: BlockRequest) -> tuple[Block, StateArrays]:
        token, uniform, distribution, forbidden, explain = request
        limits = [dtype.as_numpy_dtype(value) for dtype, value in zip(LIMIT_TYPES, distribution, strict=True)]
        graph = self._graph(forbidden, explain, len(token) > 1)
        block, states_after = call_with_arrays(graph, token, uniform, *limits, *states)
        return Block(*(part if part is None else part.numpy() for part in block)), _arrays(states_after)

    def _graph(self, forbidden: tuple[int, ...], explain: bool, several: bool) -> tf.function:
        key = (forbidden, explain, several)
        if key not in self._graphs:
            mask = self.output_mask(forbidden)
            signature = [
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([None, None], tf.float64),
                *(tf.TensorSpec([], dtype) for dtype in LIMIT_TYPES),
                *self._states,
            ]

            def block(token: tf.Tensor, uniform: tf.Tensor, *others: tf.Tensor) -> tuple[Block, States]:
                limits, states = others[: len(LIMIT_TYPES)], others[len(LIMIT_TYPES) :]
                # one row is multiplied as fast without a copy
                with self._padded() if several else nullcontext():
                    return self.sample(token, self._pack(states), uniform, mask, truncated_softmax(*limits), explain)

            self._graphs[key] = tf.function(block, autograph=False, input_signature=signature)
        return self._graphs[key]

    def _pack(self, states: Sequence[tf.Tensor]) -> States:
        packed: States = tf.nest.pack_sequence_as(self._structure, list(states))
        return packed

    def output_mask(self, forbidden: Sequence[int]) -> tf.Tensor:
        """What is added to the logits, [vocabulary]: -inf for forbidden tokens, 0 for others."""
        return tf.reduce_sum(tf.one_hot(forbidden, self.vocabulary_size, NEG_INF, 0.0), axis=0)

    def sample(
        self,
        token: tf.Tensor,
        states: States,
        uniform: tf.Tensor,
        mask: tf.Tensor,
        distribution: TruncatedSoftmax,
        explain: bool = False,
    ) -> tuple[Block, States]:
        """Sample tokens, in a graph.

        Args:
            token: the last one, ids [rows].
            states: before it.
            uniform: random numbers in [0, 1), [rows, steps].
            mask: see :meth:`output_mask`.
            distribution: to sample from.
            explain: whether to return probabilities.

        Returns:
            The tokens, and the states before the last of them.
        """
        steps = tf.shape(uniform)[1]
        types = ((tf.int32, [None]), (tf.float32, [None, None]), (tf.int32, [None, None]))[: 3 if explain else 1]
        arrays = tuple(tf.TensorArray(dtype, steps, element_shape=shape) for dtype, shape in types)

        def step(
            t: tf.Tensor, token: tf.Tensor, states: States, arrays: tuple[tf.TensorArray, ...]
        ) -> tuple[tf.Tensor, tf.Tensor, States, tuple[tf.TensorArray, ...]]:
            logits, states = self.model.step(token, states)
            logits += mask
            token = sample_words(distribution(logits), uniform[:, t])
            values = (token, *_explanation(logits, token)) if explain else (token,)
            return t + 1, token, states, tuple(a.write(t, v) for a, v in zip(arrays, values, strict=True))

        _, _, states, arrays = tf.while_loop(lambda t, *_: t < steps, step, (tf.constant(0), token, states, arrays))
        ids, *explanation = (array.stack() for array in arrays)
        explanation = [tf.transpose(part, [1, 0, 2]) for part in explanation] or [None, None]
        return Block(tf.transpose(ids), *explanation), states

    def _read_tokens(self, inputs: tf.Tensor, states: Sequence[tf.Tensor]) -> tuple[tf.Tensor, States]:
        with self._padded():
            return self.model.read(inputs, self._pack(states))

    def _padded(self) -> AbstractContextManager[None]:
        """Products with padded copies of the matrices."""
        return using_padded_copies(weight.matrix for weight in self.model.decoder.weights_of_steps)

    def _scores(self, inputs: tf.Tensor, targets: tf.Tensor, *states: tf.Tensor) -> tuple[tf.Tensor, States]:
        hidden, states_after = self._read_tokens(inputs, states)
        words = tf.reshape(tf.transpose(targets), [-1])
        logits = self.model.output.logits(tf.reshape(hidden, [-1, hidden.shape[-1]]))
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(words, logits)
        correct = tf.cast(tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), words), tf.float32)
        by_step = tf.reshape(tf.stack([nats, correct]), [2, tf.shape(inputs)[1], tf.shape(inputs)[0]])
        return tf.reduce_sum(by_step, axis=1), states_after


def _arrays(states: Any) -> StateArrays:
    return [part.numpy() for part in tf.nest.flatten(states)]


def _explanation(logits: tf.Tensor, token: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The parts of a :class:`Block` for one step. logits: [rows, vocabulary], token: [rows]."""
    probabilities = tf.nn.softmax(logits)
    largest, words = tf.math.top_k(probabilities, min(ALTERNATIVES, logits.shape[-1]))
    return tf.concat([largest, tf.gather(probabilities, token[:, tf.newaxis], batch_dims=1)], axis=1), words
