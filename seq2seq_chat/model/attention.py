"""Attention: which words of the source the decoder attends to.

Every encoder position i gets a score u_i at decoder step t; then a = softmax(u) over the words of the source, and the
context is c_t = Σ a_i h_i. Padding gets a weight of exactly zero.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from seq2seq_chat.model.deferred import batch_dot, broadcast_add, weighted_sum
from seq2seq_chat.model.weights import Weight, glorot

MASK_VALUE = -1e9  # a masked score or logit: exp() turns it into zero


class Memory(NamedTuple):
    """What the decoder attends to; computed once from the encoder's outputs."""

    values: tf.Tensor  # summed into the context: [batch, source steps, hidden]
    keys: tf.Tensor  # scored: [batch, source steps, units]
    mask: tf.Tensor  # 0 for words, MASK_VALUE for padding: [batch, source steps]


class Attention(tf.Module):
    """Base class of all attention mechanisms.

    Args:
        name: prefix of the variables' names.
        hidden: units of the decoder's output.
        values: units of the encoder's outputs.
        seed: of the experiment.
    """

    def __init__(self, name: str, hidden: int, values: int, seed: int) -> None:
        super().__init__()

    def setup_memory(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """values: [batch, source steps, values], lengths: [batch], words of each source."""
        real = tf.sequence_mask(lengths, tf.shape(values)[1])
        return Memory(values, self.keys(values), tf.where(real, 0.0, MASK_VALUE))

    def __call__(self, memory: Memory, decoder_output: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """decoder_output: [batch, hidden] → context: [batch, values], weights: [batch, source steps]."""
        weights = tf.nn.softmax(self.scores(memory.keys, decoder_output) + memory.mask)
        return weighted_sum(weights, memory.values), weights

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """The keys of the values: [batch, source steps, units]."""
        raise NotImplementedError

    def scores(self, keys: tf.Tensor, decoder_output: tf.Tensor) -> tf.Tensor:
        """u: [batch, source steps]. decoder_output: [batch, hidden]."""
        raise NotImplementedError


class AdditiveAttention(Attention):
    """u_i = vᵀ tanh(W₁ h_i + W₂ d_t)  (Vinyals et al. 2015, equation 3; Bahdanau et al. 2014).

    The same as vᵀ tanh(W_a [d_t; h_i]), the score that Luong et al. 2015 call concat, with W_a = [W₂; W₁].
    """

    def __init__(self, name: str, hidden: int, values: int, seed: int) -> None:
        super().__init__(name, hidden, values, seed)
        self.key = Weight(f"{name}/key", values, hidden, seed)
        self.query = Weight(f"{name}/query", hidden, hidden, seed)
        self.score = tf.Variable(glorot([hidden, 1], seed, f"{name}/score")[:, 0], name=f"{name}/score")

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """W₁ h."""
        return self.key(values)

    def scores(self, keys: tf.Tensor, decoder_output: tf.Tensor) -> tf.Tensor:
        """See the class."""
        hidden = tf.tanh(broadcast_add(keys, self.query(decoder_output)))
        return tf.tensordot(hidden, self.score, axes=1)


class DotAttention(Attention):
    """u_i = d_tᵀ h_i  (Luong et al. 2015, equation 8); requires equal output sizes of encoder and decoder."""

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """h itself."""
        return values

    def scores(self, keys: tf.Tensor, decoder_output: tf.Tensor) -> tf.Tensor:
        """See the class."""
        return batch_dot(keys, decoder_output)


class GeneralAttention(DotAttention):
    """u_i = d_tᵀ W_a h_i  (Luong et al. 2015, equation 8)."""

    def __init__(self, name: str, hidden: int, values: int, seed: int) -> None:
        super().__init__(name, hidden, values, seed)
        self.key = Weight(f"{name}/key", values, hidden, seed)

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """W_a h."""
        return self.key(values)


ATTENTIONS: dict[str, type[Attention]] = {
    "additive": AdditiveAttention,
    "concat": AdditiveAttention,
    "dot": DotAttention,
    "general": GeneralAttention,
}
