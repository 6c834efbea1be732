"""A search that returns after each step, so that its reply can be shown as it grows, and that can be stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seq2seq_chat.decoding.hypotheses import PartialHypotheses
from seq2seq_chat.decoding.parameters import SearchParameters
from seq2seq_chat.decoding.result import Hypotheses
from seq2seq_chat.decoding.search import ActiveHypotheses, Extend, SearchLoop
from seq2seq_chat.model.decoder import DecoderMemory, DecoderState
from seq2seq_chat.model.eager import call_with_arrays, free_attributes


class Progress(NamedTuple):
    """A search between two steps."""

    t: tf.Tensor  # number of words so far
    hypotheses: PartialHypotheses
    active: ActiveHypotheses


class StepwiseSearch:
    """Runs a search with two compiled graphs, one for the encoder and one for a step.

    Args:
        start_search: From encoded sources to the state before the first word and the memory;
            :meth:`ReplySearch.start_search`.
        search_from: :meth:`ReplySearch.search_from`, whose loop is replaced by a single step.
        signature: The types of the source, the lengths, random numbers, [batch, n, steps], and the values of
            :class:`SearchParameters`, if they are adjustable.
    """

    def __init__(
        self,
        start_search: Callable[..., tuple[DecoderState, DecoderMemory]],
        search_from: Callable[..., Hypotheses],
        signature: Sequence[tf.TensorSpec],
    ) -> None:
        self._start_search, self._search_from, self._signature = start_search, search_from, signature
        self._graphs: tuple[tf.function, tf.function] | None = None

    def steps(self, *inputs: np.ndarray | np.generic) -> Iterator[Hypotheses]:
        """Yield what the search would return if it ended after the first step, the second, …, until it ends.

        Args:
            inputs: Arrays with the types of ``signature``.
        """
        self._graphs = self._graphs or self._build()
        first, advance = self._graphs
        start, progress = call_with_arrays(first, *inputs)
        is_running = True
        while is_running:
            progress, running, hypotheses = output = advance(start, progress)
            is_running = bool(running.numpy())
            free_attributes(output)
            yield hypotheses

    def _build(self) -> tuple[tf.function, tf.function]:
        first = tf.function(self._first, autograph=False, input_signature=self._signature)
        specs = tf.nest.map_structure(_any_rows, first.get_concrete_function().structured_outputs)
        return first, tf.function(self._advance, autograph=False, input_signature=specs)

    def _first(self, source: tf.Tensor, lengths: tf.Tensor, *inputs: tf.Tensor) -> tuple[Any, Progress]:
        """What is the same for all steps, and the search before the first one."""
        start = (*self._start_search(source, lengths), *map(tf.identity, inputs))
        begun: list[Progress] = []

        def no_step(
            extend: Extend, hypotheses: PartialHypotheses, active: ActiveHypotheses, steps: int
        ) -> PartialHypotheses:
            begun.append(Progress(tf.constant(0), hypotheses, active))
            return hypotheses

        self._search(start, no_step)
        return start, begun[0]

    def _advance(self, start: Any, progress: Progress) -> tuple[Progress, tf.Tensor, Hypotheses]:
        """The search after one more step, whether another one follows, and the result so far."""
        after: list[tuple[Progress, tf.Tensor]] = []

        def one_step(
            extend: Extend, hypotheses: PartialHypotheses, active: ActiveHypotheses, steps: int
        ) -> PartialHypotheses:
            extended = Progress(progress.t + 1, *extend(*progress))
            after.append((extended, (extended.t < steps) & (tf.size(extended.active.rows) > 0)))
            return extended.hypotheses

        hypotheses = self._search(start, one_step)
        return *after[0], hypotheses

    def _search(self, start: Any, loop: SearchLoop) -> Hypotheses:
        state, memory, uniform, *parameters = start
        return self._search_from(state, memory, uniform, SearchParameters(*parameters) if parameters else None, loop)


def _any_rows(tensor: tf.Tensor) -> tf.TensorSpec:
    """The type of a tensor that may have another number of rows."""
    shape = tensor.shape.as_list()
    return tf.TensorSpec([None, *shape[1:]] if shape else [], tensor.dtype)
