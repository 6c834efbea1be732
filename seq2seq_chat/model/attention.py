"""Attention: which words of the source the decoder looks at.

For every decoder step t and encoder position i a score u_i, then a = softmax(u) over the real words of the source, and
the context c_t = Σ a_i h_i. Padding gets a weight of exactly zero.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from seq2seq_chat.model.deferred import add_to_each, product_with_each, weighted_sum
from seq2seq_chat.model.weights import Weight, glorot

MASKED = -1e9  # a score that exp() turns into zero


class Memory(NamedTuple):
    """What the decoder attends to; computed once from the encoder's outputs."""

    values: tf.Tensor  # what is summed, h or what is made of it: [batch, source steps, hidden]
    keys: tf.Tensor  # the values as the score needs them: [batch, source steps, units]
    mask: tf.Tensor  # 0 for real words, MASKED for padding: [batch, source steps]


class Attention(tf.Module):
    """What all scores have in common.

    Args:
        name: beginning of the variables' names.
        hidden: units of the decoder's output.
        values: units of what is attended to.
        seed: of the experiment.
    """

    def __init__(self, name: str, hidden: int, values: int, seed: int) -> None:
        super().__init__()

    def remember(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """values: [batch, source steps, values], lengths: [batch], real words of each source."""
        real = tf.sequence_mask(lengths, tf.shape(values)[1])
        return Memory(values, self.keys(values), tf.where(real, 0.0, MASKED))

    def __call__(self, memory: Memory, decoder_output: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """decoder_output: [batch, hidden] → context: [batch, values], weights: [batch, source steps]."""
        weights = tf.nn.softmax(self.scores(memory.keys, decoder_output) + memory.mask)
        return weighted_sum(weights, memory.values), weights

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """What the scores need to know of the values: [batch, source steps, units]."""
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
        hidden = tf.tanh(add_to_each(keys, self.query(decoder_output)))
        return tf.tensordot(hidden, self.score, axes=1)


class DotAttention(Attention):
    """u_i = d_tᵀ h_i  (Luong et al. 2015, equation 8); needs outputs of encoder and decoder of one size."""

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """h itself."""
        return values

    def scores(self, keys: tf.Tensor, decoder_output: tf.Tensor) -> tf.Tensor:
        """See the class."""
        return product_with_each(keys, decoder_output)


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
