"""Settings of a search that are inputs of its graph, so that changing them does not compile another one."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Decoding

Scalar: TypeAlias = "float | tf.Tensor"

ALL_WORDS = int(np.iinfo(np.int32).max)  # top_k that truncates nothing
ALL_PROBABILITY = math.inf  # top_p that truncates nothing, even if rounded probabilities add up to more than 1


class SearchParameters(NamedTuple):
    """The settings of :class:`Decoding` with these names, as numbers or scalar tensors."""

    length_penalty: Scalar
    diversity_penalty: Scalar
    temperature: Scalar
    top_k: Scalar
    top_p: Scalar
    min_length: Scalar
    repetition_penalty: Scalar

    @classmethod
    def of_settings(cls, decoding: Decoding) -> SearchParameters:
        """The values of settings."""
        top_k, top_p = decoding.top_k, decoding.top_p
        values = {name: getattr(decoding, name) for name in cls._fields}
        values["top_k"] = ALL_WORDS if top_k is None else min(top_k, ALL_WORDS)
        values["top_p"] = ALL_PROBABILITY if top_p is None else top_p
        return cls(**values)

    def arrays(self) -> list[np.generic]:
        """The values as inputs of a graph with the signature :meth:`specs`."""
        return [spec.dtype.as_numpy_dtype(value) for spec, value in zip(SearchParameters.specs(), self, strict=True)]

    @classmethod
    def specs(cls) -> list[tf.TensorSpec]:
        """The types of the scalars, in the order of the fields."""
        integers = ("top_k", "min_length")
        return [tf.TensorSpec([], tf.int32 if name in integers else tf.float32, name) for name in cls._fields]


def graph_settings(decoding: Decoding) -> Decoding:
    """Settings that are the same for all searches with the same graph: placeholders replace the parameters.

    Whether sampling truncates the distribution and whether a rule applies is part of the graph, as both take time at
    each step.
    """
    names = ("length_penalty", "diversity_penalty", "temperature", "top_k")
    placeholders = {name: Decoding.model_fields[name].default for name in names}
    placeholders["top_p"] = 1.0 if truncates(decoding) else None
    placeholders["min_length"] = min(decoding.min_length, 1)
    placeholders["repetition_penalty"] = 1.0 if decoding.repetition_penalty == 1 else 2.0
    return decoding.model_copy(update=placeholders)


def truncates(decoding: Decoding) -> bool:
    """Whether sampling is limited to the most probable words."""
    return decoding.top_k is not None or decoding.top_p is not None
