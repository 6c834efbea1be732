"""Settings of a search that are inputs of its graph, so that changing them does not compile another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.search.engine import WordDistribution

Scalar: TypeAlias = "float | tf.Tensor"
Condition: TypeAlias = "bool | tf.Tensor"
Result = TypeVar("Result")

BEAM_WIDTHS = (5, 10, 20, 50, 100, 200, 500, 1000)  # that are compiled; other widths use a part of the next one


class SearchParameters(NamedTuple):
    """The settings of :class:`Decoding` with these names, as numbers or scalar tensors."""

    beam_width: Scalar
    n_best: Scalar
    length_penalty: Scalar
    diversity_penalty: Scalar
    temperature: Scalar
    top_k: Scalar
    top_p: Scalar
    min_length: Scalar
    no_repeat_ngram_size: Scalar
    repetition_penalty: Scalar
    allow_unknown: Condition

    @classmethod
    def of_settings(cls, decoding: Decoding) -> SearchParameters:
        """The values of settings."""
        values = {name: getattr(decoding, name) for name in cls._fields}
        return cls(**(values | WordDistribution.of_settings(decoding)._asdict()))

    def arrays(self) -> list[np.generic]:
        """The values as inputs of a graph with the signature :meth:`specs`."""
        return [spec.dtype.as_numpy_dtype(value) for spec, value in zip(SearchParameters.specs(), self, strict=True)]

    @classmethod
    def specs(cls) -> list[tf.TensorSpec]:
        """The types of the scalars, in the order of the fields."""
        types = {bool: tf.bool, int: tf.int32, float: tf.float32}
        defaults = cls.of_settings(Decoding())
        return [tf.TensorSpec([], types[type(value)], name) for name, value in zip(cls._fields, defaults, strict=True)]


def graph_settings(decoding: Decoding) -> Decoding:
    """Settings that are the same for all searches with the same graph: defaults replace the parameters.

    The groups of a diverse beam are part of its graph, and with them its exact width. The dynamic decoder has no
    parameters.
    """
    if decoding.method != "beam":
        return Decoding(method=decoding.method, unrolling="built_in")
    width = decoding.beam_width
    if decoding.beam_groups == 1:
        width = next(compiled for compiled in BEAM_WIDTHS if width <= compiled)
    return Decoding(
        method="beam", beam_width=width, beam_groups=decoding.beam_groups, stop=decoding.stop, unrolling="built_in"
    )


def choose(condition: Condition, yes: Callable[[], Result], no: Callable[[], Result]) -> Result:
    """``yes()`` if the condition holds, else ``no()``; the graph has only one of them if the condition is constant."""
    if isinstance(condition, bool):
        return yes() if condition else no()
    result: Result = tf.cond(condition, yes, no)
    return result
