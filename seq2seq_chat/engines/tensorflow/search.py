"""Searches over a model in TensorFlow: as one graph, or step by step.

A whole search is one graph for batches that nobody watches, and as a part of a SavedModel. A step is one graph that
reorders states, runs the decoder, and chooses the next words, for the searches of ``search/``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding.logit_rules import SearchParameters, penalized_logits
from seq2seq_chat.decoding.methods import find_hypotheses, sample_words, truncated_softmax
from seq2seq_chat.decoding.search import (
    ModelOutput,
    SearchInputs,
    StepFunction,
    allowed_logits,
    log_normalizer,
    reorder_state,
    top_k_words,
)
from seq2seq_chat.model.execution import call_with_arrays, free_attributes
from seq2seq_chat.model.seq2seq import SearchWeights, Seq2Seq
from seq2seq_chat.search.batches import Seeds, search_in_batches
from seq2seq_chat.search.engine import NEG_INF, NO_WORD, Hypotheses, Reported, Rows, StepOutput, StepRequest
from seq2seq_chat.search.logit_rules import rule_without_port
from seq2seq_chat.system.errors import UserError


class GraphSearch:
    """Finds replies to any number of encoded utterances with one compiled graph.

    Args:
        model: its variables may change between calls, as in training.
        adjustable: whether each call can have other ones, for which the graph must have more operations.
        weights: what :meth:`Seq2Seq.search_weights` returns, to search faster while variables do not change.

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

    def __call__(
        self, source: np.ndarray, lengths: np.ndarray, seed: Seeds | None = None, settings: Decoding | None = None
    ) -> Hypotheses:
        """Search for replies to encoded utterances; see :func:`search_in_batches`.

        settings: Those of an adjustable search with the same :func:`graph_settings`; None: the ones of the graph.
        """
        settings = settings or self._decoding
        sizes = self._decoding.model_copy(update={"n_best": settings.n_best})
        parameters = SearchParameters.of_settings(settings).arrays() if self._adjustable else []

        def search(*batch: Any) -> Hypotheses:
            fields = call_with_arrays(self._compiled, *batch[:3], *parameters)
            return Hypotheses(*(field.numpy() for field in fields))

        return search_in_batches(search, sizes, self._model.config.decoder_steps, source, lengths, seed)

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
        config = self._model.config
        inputs = SearchInputs(
            model_step(self._model, self._weights),
            state,
            memory=memory,
            steps=config.decoder_steps,
            source_steps=config.encoder_steps if memory.attended else 0,
            attended_steps=tf.shape(memory.attended.values)[1] if memory.attended else 0,
        )
        parameters = parameters or SearchParameters.of_settings(self._decoding)
        return find_hypotheses(inputs, self._decoding, parameters, uniform)


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


class _Variant(NamedTuple):
    """What distinguishes the graphs of a step."""

    k: int
    banned: int
    reported: int
    inputs: tuple[str, ...]  # names of the inputs that do not belong to the state
    moves_state: bool  # whether rows continue the state of other rows than at the step before
    moves_memory: bool  # whether rows read the memory of other utterances than at the step before


_SPECS = {
    "words_and_parents": ([2, None], tf.int32),
    **dict.fromkeys(("forbidden", "penalized"), ([None, 2], tf.int32)),
    **dict.fromkeys(("penalty", "temperature", "top_p"), ([], tf.float32)),
    "top_k": ([], tf.int32),
    "uniform": ([None], tf.float64),
    "forced": ([None], tf.int32),
}
"""Shapes and types of the inputs of a step; all but ``banned``, whose size is a part of the variant."""


class TensorFlowSteps:
    """An engine for searches, see :class:`Engine`; compiles a graph for the encoder and one for each kind of step.

    Args:
        model: Its variables may change between searches, unless there are ``weights``.
        weights: What :meth:`Seq2Seq.search_weights` returns, to search faster.
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
        moves = not np.array_equal(parents, np.arange(len(rows.utterances)))
        banned = [*edits.banned, *[NO_WORD] * (MIN_BANNED - len(edits.banned))]
        arrays: dict[str, np.ndarray | np.generic] = {
            "words_and_parents": np.stack([request.words, parents]),
            "banned": np.array(banned, np.int32),
        }
        if len(edits.forbidden):
            arrays["forbidden"] = edits.forbidden
        if len(edits.penalized):
            arrays |= {"penalized": edits.penalized, "penalty": np.float32(edits.penalty)}
        if sampling is not None:
            temperature, top_k, top_p = sampling.distribution
            arrays |= {"temperature": np.float32(temperature), "top_k": np.int32(top_k), "top_p": np.float32(top_p)}
            arrays["uniform"] = sampling.uniform
        if request.forced is not None:
            arrays["forced"] = request.forced
        moves_memory = moves and not np.array_equal(utterances, rows.utterances)
        variant = _Variant(request.k, len(banned), request.reported, tuple(arrays), moves, moves_memory)
        inputs = [tf.constant(array) for array in arrays.values()]
        # arrays where states of several searches were joined
        carried = [tf.constant(x) if isinstance(x, np.ndarray) else x for x in (*rows.state, *rows.memory)]
        outputs = self._graph(variant)(*inputs, *carried)
        free_attributes(inputs, carried, outputs)
        results, state, memory = outputs
        words, log_probabilities, attention, *others = (result.numpy() for result in results)
        forced = others.pop(0) if request.forced is not None else None
        output = StepOutput(words, log_probabilities, attention, forced, Reported(*others) if others else None)
        return output, Rows(state, memory or carried[len(rows.state) :], utterances)

    def _encode(self, source: tf.Tensor, lengths: tf.Tensor) -> Any:
        return self._model.start_search(source, lengths, self._weights)

    def _graph(self, variant: _Variant) -> Any:
        if variant not in self._steps:
            shapes = _SPECS | {"banned": ([variant.banned], tf.int32)}
            specs = [tf.TensorSpec(*shapes[name]) for name in variant.inputs]
            specs += [tf.TensorSpec([None, *part.shape[1:]], part.dtype) for part in tf.nest.flatten(self._structure)]
            graph = tf.function(lambda *inputs: self._compute(variant, *inputs), autograph=False, input_signature=specs)
            self._steps[variant] = graph.get_concrete_function()
        return self._steps[variant]

    def _compute(
        self, variant: _Variant, *tensors: tf.Tensor
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], list[tf.Tensor]]:
        """The step in a graph: results, state, and the memory if it moves."""
        inputs = dict(zip(variant.inputs, tensors, strict=False))
        state, memory = tf.nest.pack_sequence_as(self._structure, list(tensors[len(inputs) :]))
        (words, parents), banned = tf.unstack(inputs["words_and_parents"]), inputs["banned"]
        if variant.moves_state:
            state = reorder_state(state, parents)
        if variant.moves_memory:
            memory = reorder_state(memory, parents)
        original = model_step(self._model, self._weights)(words, state, memory)
        logits, normalizer, state, attention, _ = original
        if "penalized" in inputs:
            logits = penalized_logits(logits, inputs["penalized"], inputs["penalty"])
            normalizer = log_normalizer(logits)
        if "forbidden" in inputs:
            masked = tf.fill([tf.shape(inputs["forbidden"])[0]], NEG_INF)
            logits = tf.tensor_scatter_nd_update(logits, inputs["forbidden"], masked)
        logits = tf.ensure_shape(logits, original.logits.shape)
        output = ModelOutput(logits, normalizer, state, attention, tf.unstack(banned))
        if "uniform" in inputs:
            probabilities = truncated_softmax(inputs["temperature"], inputs["top_k"], inputs["top_p"])
            chosen = sample_words(probabilities(allowed_logits(output)), inputs["uniform"])[:, tf.newaxis]
            log_probabilities = tf.gather(logits, chosen, batch_dims=1) - normalizer[:, tf.newaxis]
        elif not variant.k:
            chosen, log_probabilities = tf.range(logits.shape[1])[tf.newaxis], logits - normalizer[:, tf.newaxis]
        else:
            log_probabilities, chosen = top_k_words(output, variant.k)
        results = [chosen, log_probabilities, attention]

        def look_up(ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            """Log-probabilities of words, with the rules unless they forbid it, and whether they allow it."""
            is_banned = tf.reduce_any(ids[:, :, tf.newaxis] == banned, axis=2)
            after = tf.where(is_banned, NEG_INF, tf.gather(logits, ids, batch_dims=1)) - normalizer[:, tf.newaxis]
            before = tf.gather(original.logits, ids, batch_dims=1) - original.normalizer[:, tf.newaxis]
            allowed = after > NEG_INF
            return tf.where(allowed, after, before), allowed

        if "forced" in inputs:
            results.append(look_up(inputs["forced"][:, tf.newaxis])[0][:, 0])
        if variant.reported:
            ids = tf.math.top_k(original.logits, min(variant.reported, logits.shape[1])).indices
            results += [ids, *look_up(ids)]
        return results, tf.nest.flatten(state), tf.nest.flatten(memory) if variant.moves_memory else []
