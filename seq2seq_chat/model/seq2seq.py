"""The whole model: embeddings, encoder, decoder and output, composed."""

from __future__ import annotations

from typing import NamedTuple, Optional, Union

import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.corpus.vocabulary import GO
from seq2seq_chat.model.attention import Memory
from seq2seq_chat.model.decoder import Decoder, DecoderState, Replace
from seq2seq_chat.model.deferred import without_gradient
from seq2seq_chat.model.dropout import Dropout
from seq2seq_chat.model.embeddings import Embedding
from seq2seq_chat.model.encoder import Encoded, Encoder
from seq2seq_chat.model.output import Output, WordSampler
from seq2seq_chat.model.own_words import OwnWords


class Loss(NamedTuple):
    """The loss of a batch as a sum, so that batches of different sizes add up exactly."""

    nats: tf.Tensor  # scalar, summed over the target tokens
    tokens: tf.Tensor  # scalar, float: target tokens, the end marker included, padding excluded


class Seq2Seq(tf.Module):
    """A conversational sequence-to-sequence model.

    Args:
        config: the architecture.
        vocabulary_size: words of source and target.
        seed: the variables' initial values are a function of it and their names.
    """

    def __init__(self, config: Model, vocabulary_size: int, seed: int) -> None:
        super().__init__()
        self.config, self.vocabulary_size, self.seed = config, vocabulary_size, seed
        if config.shared_embeddings:
            self.source_embedding = Embedding("embedding/shared", vocabulary_size, config.embedding_size, seed)
            self.target_embedding = self.source_embedding
        else:
            self.source_embedding = Embedding("embedding/source", vocabulary_size, config.embedding_size, seed)
            self.target_embedding = Embedding("embedding/target", vocabulary_size, config.embedding_size, seed)
        self.encoder = Encoder(config, seed)
        self.decoder = Decoder(config, seed)
        self.output = Output(config, vocabulary_size, seed)
        self.unroll = self.decoder.unroll  # a dynamic decoder over the same variables may stand here

    def encode(self, source: tf.Tensor, lengths: tf.Tensor, dropout: Optional[Dropout] = None) -> Encoded:
        """source: ids [batch, source steps], lengths: [batch]."""
        return self.encoder(self.source_embedding(tf.transpose(source)), lengths, dropout)

    def loss(
        self,
        source: tf.Tensor,
        source_lengths: tf.Tensor,
        target: tf.Tensor,
        target_lengths: tf.Tensor,
        *,
        sampler: Optional[WordSampler] = None,
        dropout: Optional[Dropout] = None,
        step: Optional[tf.Tensor] = None,
        own_words: Optional[OwnWords] = None,
    ) -> Loss:
        """Teacher-forced loss: the decoder is given the right words, and judged on the next one.

        Args:
            source: ids, int32 [batch, source steps]; source_lengths: [batch].
            target: ids, the end marker included, int32 [batch, target steps]; target_lengths: [batch], 0 for rows
                that only fill the batch.
            sampler: draws the words of the sampled softmax at ``step``; without one the loss is the exact one.
            own_words: which words the decoder is given are its own, for scheduled sampling.
        """
        hidden, words, _ = self.teacher_forced(source, source_lengths, target, target_lengths, dropout, own_words)
        if sampler is not None:
            nats = self.output.sampled_loss(hidden, words, sampler(step))
        else:
            nats = self.output.full_loss(hidden, words)
        return Loss(tf.reduce_sum(nats), tf.cast(tf.shape(words)[0], tf.float32))

    def log_probabilities(
        self, source: tf.Tensor, source_lengths: tf.Tensor, target: tf.Tensor, target_lengths: tf.Tensor
    ) -> tf.Tensor:
        """log P(target | source) of every sample, in nats: [batch]. Arguments as for :meth:`loss`."""
        return self.log_probabilities_of(self.encode(source, source_lengths), target, target_lengths)

    def log_probabilities_of(self, encoded: Encoded, target: tf.Tensor, target_lengths: tf.Tensor) -> tf.Tensor:
        """The same for sources that are encoded already. One step's softmax at a time, which bounds the memory."""
        words = tf.transpose(target)
        hidden = self.decoder.unroll(self.target_embedding(decoder_inputs(words)), encoded)
        real = tf.transpose(tf.sequence_mask(target_lengths, target.shape[1], dtype=tf.float32))
        steps = range(words.shape[0])
        return tf.add_n([-real[t] * self.output.full_loss(hidden[t], words[t]) for t in steps])

    def teacher_forced(
        self,
        source: tf.Tensor,
        source_lengths: tf.Tensor,
        target: tf.Tensor,
        target_lengths: tf.Tensor,
        dropout: Optional[Dropout] = None,
        own_words: Optional[OwnWords] = None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """h̃ before every real target word, these words, and their rows: [tokens, hidden], [tokens], [tokens].

        Step by step: first the first words of all samples, then the second ones, and so on.
        """
        encoded = self.encode(source, source_lengths, dropout)
        words = tf.transpose(target)  # time first from here on
        replace = None if own_words is None else self._replace(own_words.choose(tf.shape(words)[1], words.shape[0]))
        hidden = self.unroll(self.target_embedding(decoder_inputs(words)), encoded, dropout, replace)
        if dropout is not None:
            hidden = dropout(hidden, "output")
        # padding never reaches the softmax, where most of the work is
        real = tf.where(tf.transpose(tf.sequence_mask(target_lengths, target.shape[1])))
        return tf.gather_nd(hidden, real), tf.gather_nd(words, real), real[:, 1]

    def _replace(self, own: tf.Tensor) -> Replace:
        """Gives the decoder its own most probable word where ``own``, bool [target steps, batch], is true."""

        def replace(t: Union[int, tf.Tensor], vectors: tf.Tensor, hidden: tf.Tensor) -> tf.Tensor:
            with without_gradient():
                words = tf.argmax(self.output.logits_of_few(self.output.project(hidden)), axis=1, output_type=tf.int32)
            return tf.where(own[t][:, tf.newaxis], self.target_embedding(words), vectors)

        return replace

    def start(self, encoded: Encoded) -> tuple[DecoderState, Optional[Memory]]:
        """The decoder before its first word, for decoding."""
        return self.decoder.start(encoded)

    def step(
        self, words: tf.Tensor, state: DecoderState, memory: Optional[Memory]
    ) -> tuple[tf.Tensor, DecoderState, Optional[tf.Tensor]]:
        """One word of decoding.

        Args:
            words: ids of the words before, [batch].

        Returns:
            logits: [batch, vocabulary], the next state, attention weights: [batch, source steps] or None.
        """
        prepared = self.decoder.prepare(self.target_embedding(words))
        hidden, state, weights = self.decoder.step(prepared, state, memory)
        return self.output.logits_of_few(self.output.project(hidden)), state, weights


def decoder_inputs(words: tf.Tensor) -> tf.Tensor:
    """The word before each target word, the start marker before the first. words: ids [target steps, batch]."""
    return tf.concat([tf.fill([1, tf.shape(words)[1]], GO), words[:-1]], axis=0)


def outline(config: Model, vocabulary_size: int) -> Seq2Seq:
    """A model that has names and shapes but no memory: for counting what is too large to be made."""
    with tf.Graph().as_default():
        return Seq2Seq(config, vocabulary_size, seed=0)


def parameters_by_part(model: Seq2Seq) -> dict[str, int]:
    """How many numbers each part of the model learns, e.g. {"encoder": 41943040, …}."""
    parts: dict[str, int] = {}
    for variable in model.trainable_variables:
        part = variable.name.split("/")[0].split(":")[0]
        parts[part] = parts.get(part, 0) + int(variable.shape.num_elements())
    return parts
