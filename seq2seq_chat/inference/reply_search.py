"""Replies of a model: a search over its decoder's step function, compiled once."""

from __future__ import annotations

import copy
import secrets
from typing import Any

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding.beam import beam_search
from seq2seq_chat.decoding.hypotheses import StepFunction, StepOutput, log_normalizer
from seq2seq_chat.decoding.logit_rules import configured_rules
from seq2seq_chat.decoding.parameters import SearchParameters
from seq2seq_chat.decoding.result import Hypotheses, OnStep
from seq2seq_chat.decoding.sampling import sampling_search, truncated_softmax
from seq2seq_chat.decoding.search import SearchInputs, SearchLoop
from seq2seq_chat.decoding.sequential import sequential_search
from seq2seq_chat.decoding.uniform import Seeds, uniform_numbers
from seq2seq_chat.inference.stepwise_search import StepwiseSearch
from seq2seq_chat.model.decoder import DecoderMemory, DecoderState
from seq2seq_chat.model.eager import call_with_arrays
from seq2seq_chat.model.seq2seq import SearchWeights, Seq2Seq
from seq2seq_chat.system.errors import UserError

MAX_ROWS = 640  # hypotheses decoded together: bounds the memory of the logits, [rows, vocabulary]


class ReplySearch:
    """Finds replies to any number of encoded utterances with one compiled graph.

    Args:
        model: its variables may change between calls, as in training.
        decoding: the settings of the search.
        adjustable: whether :meth:`with_parameters` can change them, for which the graph must have more operations.
        weights: of a model whose variables do not change, to search faster.

    Raises:
        UserError: the settings require the dynamic decoder, which does not support the model.
    """

    def __init__(
        self, model: Seq2Seq, decoding: Decoding, adjustable: bool = False, weights: SearchWeights | None = None
    ) -> None:
        if decoding.unrolling == "dynamic" and model.config.static_only:
            raise UserError(f"decoding.unrolling dynamic does not support model.{model.config.static_only}; use static")
        self._model, self._decoding, self._adjustable, self._weights = model, decoding, adjustable, weights
        self._parameters = SearchParameters.of_settings(decoding)
        signature = [
            tf.TensorSpec([None, model.config.encoder_steps], tf.int32),
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None, None, model.config.decoder_steps], tf.float64),
            *(SearchParameters.specs() if adjustable else ()),
        ]
        self._stepwise = StepwiseSearch(self.start_search, self.search_from, signature)
        self._compiled = tf.function(
            lambda source, lengths, uniform, *parameters: self.search(
                source, lengths, uniform, SearchParameters(*parameters) if parameters else None
            ),
            autograph=False,
            input_signature=signature,
        )

    def with_parameters(self, parameters: SearchParameters) -> ReplySearch:
        """An adjustable search with other values of parameters and the same graph; see :func:`graph_settings`."""
        search = copy.copy(self)
        search._parameters = parameters
        return search

    def __call__(
        self, source: np.ndarray, lengths: np.ndarray, seed: Seeds | None = None, on_step: OnStep | None = None
    ) -> Hypotheses:
        """The hypotheses of encoded utterances, as NumPy arrays, [n, n_best, …].

        If they do not fit into one batch, those of similar lengths share one, which then takes fewer steps.

        Args:
            source: ids int32 [n, source steps].
            lengths: int32 [n].
            seed: of sampling: one for each utterance, or one for all; None for a new one at every call.
            on_step: called after every step of a batch, which ends early if it returns False.
        """
        decoding = self._decoding
        samples = int(self._parameters.n_best) if decoding.method == "sample" else 0
        width = decoding.beam_width if decoding.method == "beam" else max(1, samples)
        size = max(1, MAX_ROWS // width)
        by_length = on_step is None and len(source) > size
        order = np.argsort(lengths, kind="stable") if by_length else np.arange(len(source))
        seeds = np.broadcast_to(secrets.randbits(31) if seed is None else seed, len(source))
        parameters = self._parameters.arrays() if self._adjustable else []
        batches: list[Hypotheses] = []
        for start in range(0, max(1, len(source)), size):
            rows = order[start : start + size]
            uniform = uniform_numbers(seeds[rows], source[rows], samples, self._model.config.decoder_steps)
            arrays: tuple[Any, ...] = (source[rows], lengths[rows], uniform, *parameters)
            if on_step is None or is_dynamic(self._model, decoding):
                fields = call_with_arrays(self._compiled, *arrays)
            else:
                for fields in self._stepwise.steps(*arrays):
                    if not on_step(start, fields):
                        break
            batches.append(Hypotheses(*(field.numpy() for field in fields)))
        positions = np.argsort(order)
        return Hypotheses(*(np.concatenate(field)[positions] for field in zip(*batches, strict=True)))

    def search(
        self,
        source: tf.Tensor,
        lengths: tf.Tensor,
        uniform: tf.Tensor | None = None,
        parameters: SearchParameters | None = None,
    ) -> Hypotheses:
        """The search as part of a graph.

        Args:
            source: ids [batch, source steps], lengths: [batch].
            uniform: random numbers for sampling, [batch, n, steps].
            parameters: scalar tensors; the settings, as constants, if None.
        """
        if is_dynamic(self._model, self._decoding):
            from seq2seq_chat.inference.dynamic import DynamicSearch  # slow to import

            return DynamicSearch(self._model, self._decoding)(self._model.encode(source, lengths))
        return self.search_from(*self.start_search(source, lengths), uniform, parameters)

    def start_search(self, source: tf.Tensor, lengths: tf.Tensor) -> tuple[DecoderState, DecoderMemory]:
        """The state before the first word, and what every step reads; see :meth:`Seq2Seq.start_search`."""
        return self._model.start_search(source, lengths, self._weights)

    def search_from(
        self,
        state: DecoderState,
        memory: DecoderMemory,
        uniform: tf.Tensor | None = None,
        parameters: SearchParameters | None = None,
        loop: SearchLoop | None = None,
    ) -> Hypotheses:
        """The search after the encoder; ``loop`` is that of :class:`SearchInputs`."""
        decoding, config = self._decoding, self._model.config
        parameters = parameters or self._parameters
        inputs = SearchInputs(
            model_step(self._model, self._weights),
            state,
            memory=memory,
            steps=config.decoder_steps,
            source_steps=config.encoder_steps if memory.attended else 0,
            logit_rules=configured_rules(parameters),
            loop=loop,
            attended_steps=tf.shape(memory.attended.values)[1] if memory.attended else 0,
        )
        if decoding.method == "greedy":
            return sequential_search(inputs)
        if decoding.method == "sample":
            distribution = truncated_softmax(parameters.temperature, parameters.top_k, parameters.top_p)
            return sampling_search(inputs, uniform, distribution)
        return beam_search(
            inputs,
            width=decoding.beam_width if decoding.beam_groups > 1 else parameters.beam_width,
            n_best=parameters.n_best,
            length_penalty=parameters.length_penalty,
            groups=decoding.beam_groups,
            diversity=parameters.diversity_penalty,
            max_width=decoding.beam_width,
        )


def is_dynamic(model: Seq2Seq, decoding: Decoding) -> bool:
    """Whether the dynamic decoder searches, for which all settings are part of the graph."""
    return (decoding.unrolling or model.config.unrolling) == "dynamic" and decoding.supports_dynamic


def model_step(model: Seq2Seq, weights: SearchWeights | None = None) -> StepFunction:
    """The step function of a model's decoder; see :meth:`Seq2Seq.step`."""

    def step(words: tf.Tensor, state: Any, memory: Any) -> StepOutput:
        logits, state, attention = model.step(words, state, memory, weights)
        if attention is None:
            attention = tf.zeros([tf.shape(words)[0], 0])
        return StepOutput(logits, log_normalizer(logits), state, attention)

    return step
