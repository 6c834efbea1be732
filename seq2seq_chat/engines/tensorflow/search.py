"""Searches over a model in TensorFlow: as one graph, or step by step.

A whole search is one graph for batches that nobody watches, and as a part of a SavedModel. A step is one graph that
reorders states, runs the decoder, and chooses the next words, for the searches of ``search/``.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding.logit_rules import SearchParameters, configured_rules
from seq2seq_chat.decoding.methods import (
    beam_search,
    sample_words,
    sampling_search,
    sequential_search,
    truncated_softmax,
)
from seq2seq_chat.decoding.search import (
    ModelOutput,
    SearchInputs,
    StepFunction,
    allowed_logits,
    log_normalizer,
    top_k_words,
)
from seq2seq_chat.model.execution import call_with_arrays, free_attributes
from seq2seq_chat.model.seq2seq import SearchWeights, Seq2Seq
from seq2seq_chat.search.batches import BatchSizes, Seeds, search_in_batches
from seq2seq_chat.search.engine import NEG_INF, NO_WORD, Hypotheses, Reported, StepOutput, StepRequest
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


MIN_BANNED = 4  # words that are forbidden in every row; shorter lists are padded, so that they share a graph


class Rows(NamedTuple):
    """The state of a search between two steps."""

    state: Sequence[tf.Tensor]  # of the decoder, [rows, …] each
    memory: Sequence[tf.Tensor]  # what the decoder reads at every step, [rows, …] each
    utterances: npt.NDArray[np.int32]  # of each row, [rows]


class _Variant(NamedTuple):
    """What distinguishes the graphs of a step."""

    k: int
    banned: int
    reported: int
    samples: bool
    has_forced: bool
    forbids: bool  # whether words are forbidden in some of the rows
    penalizes: bool
    moves_state: bool  # whether rows continue the state of other rows than at the step before
    moves_memory: bool  # whether rows read the memory of other utterances than at the step before


class TensorFlowSteps:
    """An engine for searches, see :class:`Engine`; compiles a graph for the encoder and one for each kind of step.

    Args:
        model: Its variables may change between searches, unless there are ``weights``.
        weights: Of :meth:`Seq2Seq.search_weights`, to search faster.
    """

    def __init__(self, model: Seq2Seq, weights: SearchWeights | None = None) -> None:
        self._model, self._weights = model, weights
        source, lengths = tf.TensorSpec([None, model.config.encoder_steps], tf.int32), tf.TensorSpec([None], tf.int32)
        self._start = tf.function(self._encode, autograph=False, input_signature=[source, lengths])
        self._structure: Any = None  # of state and memory
        self._steps: dict[_Variant, Any] = {}

    def start(self, source: np.ndarray, lengths: np.ndarray) -> Rows:
        """Encode sources, for as many steps as the longest one has words."""
        state, memory = call_with_arrays(self._start, source, lengths)
        if self._structure is None:
            self._structure = self._start.get_concrete_function().structured_outputs
        return Rows(tf.nest.flatten(state), tf.nest.flatten(memory), np.arange(len(source), dtype=np.int32))

    def step(self, rows: Rows, request: StepRequest) -> tuple[StepOutput, Rows]:
        """Compute a step of a search."""
        edits, sampling, parents = request.edits, request.sampling, request.parents
        utterances = rows.utterances[parents]
        moves_state = not np.array_equal(parents, np.arange(len(rows.utterances)))
        variant = _Variant(
            request.k,
            max(MIN_BANNED, len(edits.banned)),
            request.reported,
            sampling is not None,
            request.forced is not None,
            len(edits.forbidden) > 0,
            len(edits.penalized) > 0,
            moves_state,
            moves_state and not np.array_equal(utterances, rows.utterances),
        )
        arrays: list[np.ndarray | np.generic] = [
            np.stack([request.words, request.parents]),
            np.array([*edits.banned, *[NO_WORD] * (variant.banned - len(edits.banned))], np.int32),
        ]
        if variant.forbids:
            arrays.append(edits.forbidden)
        if variant.penalizes:
            arrays += [edits.penalized, np.float32(edits.penalty)]
        if sampling is not None:
            temperature, top_k, top_p = sampling.distribution
            arrays += [sampling.uniform, np.float32(temperature), np.int32(top_k), np.float32(top_p)]
        if request.forced is not None:
            arrays.append(request.forced)
        inputs = [tf.constant(array) for array in arrays]
        outputs = self._graph(variant)(*inputs, *rows.state, *rows.memory)
        free_attributes(inputs, outputs)
        results, state, memory = outputs
        words, log_probabilities, attention, *others = (result.numpy() for result in results)
        forced = others.pop(0) if variant.has_forced else None
        output = StepOutput(words, log_probabilities, attention, forced, Reported(*others) if others else None)
        return output, Rows(state, memory or rows.memory, utterances)

    def _encode(self, source: tf.Tensor, lengths: tf.Tensor) -> Any:
        return self._model.start_search(source, lengths, self._weights)

    def _graph(self, variant: _Variant) -> Any:
        if variant not in self._steps:
            specs = [
                tf.TensorSpec([2, None], tf.int32),
                tf.TensorSpec([variant.banned], tf.int32),
            ]
            if variant.forbids:
                specs.append(tf.TensorSpec([None, 2], tf.int32))
            if variant.penalizes:
                specs += [tf.TensorSpec([None, 2], tf.int32), tf.TensorSpec([], tf.float32)]
            if variant.samples:
                specs += [tf.TensorSpec([None], tf.float64)]
                specs += [tf.TensorSpec([], dtype) for dtype in (tf.float32, tf.int32, tf.float32)]
            if variant.has_forced:
                specs.append(tf.TensorSpec([None], tf.int32))
            specs += [tf.TensorSpec([None, *part.shape[1:]], part.dtype) for part in tf.nest.flatten(self._structure)]
            graph = tf.function(lambda *inputs: self._compute(variant, *inputs), autograph=False, input_signature=specs)
            self._steps[variant] = graph.get_concrete_function()
        return self._steps[variant]

    def _compute(
        self,
        variant: _Variant,
        words_and_parents: tf.Tensor,
        banned: tf.Tensor,
        *others: tf.Tensor,
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], list[tf.Tensor]]:
        """The step in a graph: results, state, and the memory if it moves."""
        words, parents = tf.unstack(words_and_parents)
        parts = list(others)
        forbidden = parts.pop(0) if variant.forbids else None
        penalized, penalty = (parts.pop(0), parts.pop(0)) if variant.penalizes else (None, None)
        sampling = [parts.pop(0) for _ in range(4 if variant.samples else 0)]
        forced = parts.pop(0) if variant.has_forced else None
        state, memory = tf.nest.pack_sequence_as(self._structure, parts)
        if variant.moves_state:
            state = tf.nest.map_structure(lambda part: tf.gather(part, parents), state)
        if variant.moves_memory:
            memory = tf.nest.map_structure(lambda part: tf.gather(part, parents), memory)
        original, state, attention = self._model.step(words, state, memory, self._weights)
        logits, normalizer = original, log_normalizer(original)
        before = normalizer
        if penalized is not None:
            values = tf.gather_nd(logits, penalized)
            values = tf.where(values > 0, values / penalty, values * penalty)
            logits = tf.tensor_scatter_nd_update(logits, penalized, values)
            normalizer = log_normalizer(logits)
        if forbidden is not None:
            logits = tf.tensor_scatter_nd_update(logits, forbidden, tf.fill([tf.shape(forbidden)[0]], NEG_INF))
        logits = tf.ensure_shape(logits, original.shape)
        output = ModelOutput(logits, normalizer, state, attention, tf.unstack(banned))
        if variant.samples:
            uniform, *limits = sampling
            chosen = sample_words(truncated_softmax(*limits)(allowed_logits(output)), uniform)[:, tf.newaxis]
            log_probabilities = tf.gather(logits, chosen, batch_dims=1) - normalizer[:, tf.newaxis]
        else:
            log_probabilities, chosen = top_k_words(output, variant.k)
        if attention is None:
            attention = tf.zeros([tf.shape(words)[0], 0])
        results = [chosen, log_probabilities, attention]

        def look_up(ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            """Log-probabilities of words, with the rules unless they forbid it, and whether they allow it."""
            is_banned = tf.reduce_any(ids[:, :, tf.newaxis] == banned, axis=2)
            after = tf.where(is_banned, NEG_INF, tf.gather(logits, ids, batch_dims=1)) - normalizer[:, tf.newaxis]
            allowed = after > NEG_INF
            return tf.where(allowed, after, tf.gather(original, ids, batch_dims=1) - before[:, tf.newaxis]), allowed

        if forced is not None:
            results.append(look_up(forced[:, tf.newaxis])[0][:, 0])
        if variant.reported:
            ids = tf.math.top_k(original, min(variant.reported, original.shape[1])).indices
            results += [ids, *look_up(ids)]
        return results, tf.nest.flatten(state), tf.nest.flatten(memory) if variant.moves_memory else []
