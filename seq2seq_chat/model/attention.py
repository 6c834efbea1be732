"""Attention: which words of the source the decoder attends to.

Every encoder position i gets a score u_i at decoder step t; then a = softmax(u) over the words of the source, and the
context is c_t = Σ a_i h_i. Padding gets a weight of exactly zero, unless the source has no words, in which case all
values are zero.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from seq2seq_chat.architecture.variables import MASK_VALUE
from seq2seq_chat.model.deferred import batch_dot, broadcast_add, weighted_sum
from seq2seq_chat.model.variables import Weight, glorot


class Memory(NamedTuple):
    """What the decoder attends to; computed once from the encoder's outputs."""

    values: tf.Tensor  # summed into the context: [batch, source steps, hidden]
    keys: tf.Tensor  # scored: [batch, source steps, units]
    mask: tf.Tensor  # 0 for words, MASK_VALUE for padding: [batch, source steps]


class Attention(tf.Module):
    """Base class of all attention mechanisms.

    Args:
        name: prefix of the variables' names.
        query_size: units of the decoder's output.
        value_size: units of the encoder's outputs.
    """

    def __init__(self, name: str, query_size: int, value_size: int, seed: int) -> None:
        super().__init__()

    def setup_memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """values: [batch, source steps, value size], lengths: [batch], words of each source."""
        is_word = tf.sequence_mask(lengths, tf.shape(values)[1])
        return Memory(values, self.keys(values), tf.where(is_word, 0.0, MASK_VALUE))

    def __call__(self, memory: Memory, query: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """query: [batch, query size] → context: [batch, value size], weights: [batch, source steps]."""
        weights = tf.nn.softmax(self.scores(memory.keys, query) + memory.mask)
        return weighted_sum(weights, memory.values), weights

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """What is computed once from the values: [batch, source steps, units]."""
        raise NotImplementedError

    def scores(self, keys: tf.Tensor, query: tf.Tensor) -> tf.Tensor:
        """u: [batch, source steps]. query: the decoder's output d_t, [batch, query size]."""
        raise NotImplementedError


class AdditiveAttention(Attention):
    """u_i = vᵀ tanh(W₁ h_i + W₂ d_t)  (Vinyals et al. 2015, equation 3; Bahdanau et al. 2014).

    The same as vᵀ tanh(W_a [d_t; h_i]), the score that Luong et al. 2015 call concat, with W_a = [W₂; W₁].
    """

    def __init__(self, name: str, query_size: int, value_size: int, seed: int) -> None:
        super().__init__(name, query_size, value_size, seed)
        self.key = Weight(f"{name}/key", value_size, query_size, seed)
        self.query = Weight(f"{name}/query", query_size, query_size, seed)
        self.score = tf.Variable(glorot([query_size, 1], seed, f"{name}/score")[:, 0], name=f"{name}/score")

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        return self.key(values)

    def scores(self, keys: tf.Tensor, query: tf.Tensor) -> tf.Tensor:
        return tf.tensordot(tf.tanh(broadcast_add(keys, self.query(query))), self.score, axes=1)


class DotAttention(Attention):
    """u_i = d_tᵀ h_i  (Luong et al. 2015, equation 8); requires equal output sizes of encoder and decoder."""

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        return values

    def scores(self, keys: tf.Tensor, query: tf.Tensor) -> tf.Tensor:
        return batch_dot(keys, query)


class GeneralAttention(DotAttention):
    """u_i = d_tᵀ W_a h_i  (Luong et al. 2015, equation 8)."""

    def __init__(self, name: str, query_size: int, value_size: int, seed: int) -> None:
        super().__init__(name, query_size, value_size, seed)
        self.key = Weight(f"{name}/key", value_size, query_size, seed)

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        return self.key(values)


ATTENTIONS: dict[str, type[Attention]] = {
    "additive": AdditiveAttention,
    "concat": AdditiveAttention,
    "dot": DotAttention,
    "general": GeneralAttention,
}
