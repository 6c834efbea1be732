"""A whole search as one graph: for batches that nobody watches, and as a part of a SavedModel."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding.beam import beam_search
from seq2seq_chat.decoding.hypotheses import ModelOutput, StepFunction, log_normalizer
from seq2seq_chat.decoding.logit_rules import configured_rules
from seq2seq_chat.decoding.parameters import SearchParameters
from seq2seq_chat.decoding.search import SearchInputs
from seq2seq_chat.decoding.sequential import sampling_search, sequential_search, truncated_softmax
from seq2seq_chat.model.execution import call_with_arrays
from seq2seq_chat.model.seq2seq import SearchWeights, Seq2Seq
from seq2seq_chat.search.batches import BatchSizes, Seeds, search_in_batches
from seq2seq_chat.search.engine import Hypotheses
from seq2seq_chat.search.logit_rules import rule_without_port
from seq2seq_chat.system.errors import UserError


class GraphSearch:
    """Finds replies to any number of encoded utterances with one compiled graph.

    Args:
        model: its variables may change between calls, as in training.
        decoding: the settings of the search.
        adjustable: whether :meth:`with_parameters` can change them, for which the graph must have more operations.
        weights: of a model whose variables do not change, to search faster.

    Raises:
        UserError: the settings require the dynamic decoder, which does not support the model, or a logit rule that
            this search does not have.
    """

    def __init__(
        self, model: Seq2Seq, decoding: Decoding, adjustable: bool = False, weights: SearchWeights | None = None
    ) -> None:
        if decoding.unrolling == "dynamic" and model.config.static_only:
            raise UserError(
                f"decoding.unrolling dynamic does not support model.{model.config.static_only}; use built_in"
            )
        if setting := rule_without_port(decoding):
            raise UserError(f"decoding.{setting} is not supported by a search that is one graph; remove it")
        self._model, self._decoding, self._adjustable, self._weights = model, decoding, adjustable, weights
        self._parameters = SearchParameters.of_settings(decoding)
        signature = [
            tf.TensorSpec([None, model.config.encoder_steps], tf.int32),
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None, None, model.config.decoder_steps], tf.float64),
            *(SearchParameters.specs() if adjustable else ()),
        ]
        self._compiled = tf.function(
            lambda source, lengths, uniform, *parameters: self.search(
                source, lengths, uniform, SearchParameters(*parameters) if parameters else None
            ),
            autograph=False,
            input_signature=signature,
        )

    def with_parameters(self, parameters: SearchParameters) -> GraphSearch:
        """An adjustable search with other values of parameters and the same graph; see :func:`graph_settings`."""
        search = copy.copy(self)
        search._parameters = parameters
        return search

    def __call__(self, source: np.ndarray, lengths: np.ndarray, seed: Seeds | None = None) -> Hypotheses:
        """Search for replies to encoded utterances; see :func:`search_in_batches`."""
        method, n_best = self._decoding.method, int(self._parameters.n_best)
        width, samples = self._decoding.beam_width if method == "beam" else 1, n_best if method == "sample" else 0
        sizes = BatchSizes(self._model.config.decoder_steps, width, samples)
        parameters = self._parameters.arrays() if self._adjustable else []

        def search(*batch: Any) -> Hypotheses:
            fields = call_with_arrays(self._compiled, *batch[:3], *parameters)
            return Hypotheses(*(field.numpy() for field in fields))

        return search_in_batches(search, sizes, source, lengths, seed)

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
            from seq2seq_chat.engines.addons import DynamicSearch  # slow to import

            return DynamicSearch(self._model, self._decoding)(self._model.encode(source, lengths))
        state, memory = self._model.start_search(source, lengths, self._weights)
        decoding, config = self._decoding, self._model.config
        parameters = parameters or self._parameters
        inputs = SearchInputs(
            model_step(self._model, self._weights),
            state,
            memory=memory,
            steps=config.decoder_steps,
            source_steps=config.encoder_steps if memory.attended else 0,
            logit_rules=configured_rules(parameters),
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
            first_end=decoding.stop == "first_end",
        )


def is_dynamic(model: Seq2Seq, decoding: Decoding) -> bool:
    """Whether the dynamic decoder searches, for which all settings are part of the graph."""
    return (decoding.unrolling or model.config.unrolling) == "dynamic" and decoding.supports_dynamic


def model_step(model: Seq2Seq, weights: SearchWeights | None = None) -> StepFunction:
    """The step function of a model's decoder; see :meth:`Seq2Seq.step`."""

    def step(words: tf.Tensor, state: Any, memory: Any) -> ModelOutput:
        logits, state, attention = model.step(words, state, memory, weights)
        if attention is None:
            attention = tf.zeros([tf.shape(words)[0], 0])
        return ModelOutput(logits, log_normalizer(logits), state, attention)

    return step
