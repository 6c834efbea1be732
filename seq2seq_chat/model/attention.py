"""Attention: which words of the source the decoder looks at.

For every decoder step t and encoder position i a score u_i, then a = softmax(u) over the real words of the source, and
the context c_t = Σ a_i h_i. Padding gets a weight of exactly zero.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from seq2seq_chat.model.deferred import add_to_each, weighted_sum
from seq2seq_chat.model.weights import Weight, glorot

MASKED = -1e9  # a score that exp() turns into zero


class Memory(NamedTuple):
    """What the decoder attends to; computed once from the encoder's outputs."""

    values: tf.Tensor  # what is summed, h or what is made of it: [batch, source steps, hidden]
    keys: tf.Tensor  # the values as the score needs them: [batch, source steps, units]
    mask: tf.Tensor  # 0 for real words, MASKED for padding: [batch, source steps]


class AdditiveAttention(tf.Module):
    """u_i = vᵀ tanh(W₁ h_i + W₂ d_t)  (Vinyals et al. 2015, equation 3; Bahdanau et al. 2014)."""

    def __init__(self, name: str, hidden: int, values: int, seed: int) -> None:
        super().__init__()
        self.key = Weight(f"{name}/key", values, hidden, seed)
        self.query = Weight(f"{name}/query", hidden, hidden, seed)
        self.score = tf.Variable(glorot([hidden, 1], seed, f"{name}/score")[:, 0], name=f"{name}/score")

    def remember(self, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        """values: [batch, source steps, hidden], lengths: [batch], real words of each source."""
        real = tf.sequence_mask(lengths, tf.shape(values)[1])
        return Memory(values, self.key(values), tf.where(real, 0.0, MASKED))

    def __call__(self, memory: Memory, decoder_output: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """decoder_output: [batch, hidden] → context: [batch, hidden], weights: [batch, source steps]."""
        hidden = tf.tanh(add_to_each(memory.keys, self.query(decoder_output)))
        weights = tf.nn.softmax(tf.tensordot(hidden, self.score, axes=1) + memory.mask)
        return weighted_sum(weights, memory.values), weights


ATTENTIONS = {"additive": AdditiveAttention}
