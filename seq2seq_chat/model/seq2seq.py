"""The model: embeddings, encoder, decoder and output, composed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.model.decoder import Absent, Decoder, DecoderMemory, DecoderState, NextInputs, StepInputs, Unroll
from seq2seq_chat.model.deferred import without_gradient
from seq2seq_chat.model.encoder import Encoder, EncoderOutput
from seq2seq_chat.model.matrix_copies import MatrixCopies, copy_matrix, using_copies
from seq2seq_chat.model.output import Embedding, Output, SampledWords
from seq2seq_chat.model.randomness import RandomContext, dropout, sampling_mask
from seq2seq_chat.model.variables import Weight
from seq2seq_chat.text.vocabulary import GO


class Loss(NamedTuple):
    """The loss of a batch as a sum, so that batches of different sizes add up exactly."""

    nats: tf.Tensor  # scalar, summed over the target tokens
    tokens: tf.Tensor  # scalar, float: target tokens, including the end marker, without padding

    @classmethod
    def of_tokens(cls, nats: tf.Tensor) -> Loss:
        """The sum of the losses of tokens, [tokens]."""
        return cls(tf.reduce_sum(nats), tf.cast(tf.shape(nats)[0], tf.float32))


MAX_PROJECTED_BYTES = 2**28


class SearchWeights(NamedTuple):
    """What every search computes from the weights alone, computed once for all searches."""

    columns: tf.Tensor  # Wᵀ of the output layer, in memory as it is read: [width, vocabulary]
    copies: dict[str, MatrixCopies]  # of matrices and of the columns, by variable name
    inputs: StepInputs | Absent  # of all words, [vocabulary, …]; absent if larger than MAX_PROJECTED_BYTES


class Seq2Seq(tf.Module):
    """A sequence-to-sequence model.

    Args:
        vocabulary_size: number of words of the target.
        seed: initial values are a function of it and of the variables' names.
        source_vocabulary_size: number of words of the source; None: the vocabulary of the target.
        unroll: builds the function that runs the decoder in training; :meth:`Decoder.unroll` if None.
    """

    def __init__(
        self,
        config: Model,
        vocabulary_size: int,
        seed: int,
        source_vocabulary_size: int | None = None,
        unroll: Callable[[Decoder], Unroll] | None = None,
    ) -> None:
        super().__init__()
        self.config, self.vocabulary_size, self.seed = config, vocabulary_size, seed
        source_size, size = source_vocabulary_size or vocabulary_size, config.embedding_size
        tied = config.tie_embeddings
        if config.shared_embeddings:
            self.source_embedding = Embedding("embedding/shared", vocabulary_size, size, seed, tied)
            self.target_embedding = self.source_embedding
        else:
            self.source_embedding = Embedding("embedding/source", source_size, size, seed)
            self.target_embedding = Embedding("embedding/target", vocabulary_size, size, seed, tied)
        self.encoder = Encoder(config, seed)
        self.decoder = Decoder(config, seed)
        self.output = Output(config, vocabulary_size, seed, self.target_embedding)
        self._unroll = self.decoder.unroll if unroll is None else unroll(self.decoder)

    def encode(self, source: tf.Tensor, lengths: tf.Tensor, random: RandomContext | None = None) -> EncoderOutput:
        """source: ids [batch, source steps], lengths: [batch]."""
        return self.encoder(self.source_embedding(tf.transpose(source)), lengths, random)

    def loss(
        self,
        source: tf.Tensor,
        source_lengths: tf.Tensor,
        target: tf.Tensor,
        target_lengths: tf.Tensor,
        *,
        random: RandomContext | None = None,
        sampled_words: SampledWords | None = None,
        label_smoothing: float = 0.0,
    ) -> Loss:
        """The cross-entropy of the target words, each given those before it (teacher forcing).

        Args:
            source: ids, int32 [batch, source steps]; source_lengths: [batch].
            target: ids, including the end marker, int32 [batch, target steps]; target_lengths: [batch], 0 for rows
                without a sample.
            random: for dropout and scheduled sampling; None for neither.
            sampled_words: estimate the loss from these words (sampled softmax); None for the exact loss.
            label_smoothing: share of the probability that belongs to all words alike, without sampled words.
        """
        hidden, words, positions = self.teacher_forced(source, source_lengths, target, target_lengths, random)
        if sampled_words is not None and sampled_words.words.shape.rank == 2:
            sampled_words = sampled_words._replace(words=sampled_words.words[: target.shape[1]])
        return Loss.of_tokens(self.output.loss(hidden, words, sampled_words, positions, label_smoothing))

    def teacher_forced(
        self,
        source: tf.Tensor,
        source_lengths: tf.Tensor,
        target: tf.Tensor,
        target_lengths: tf.Tensor,
        random: RandomContext | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Outputs h̃, [tokens, units], the target words that they predict, [tokens], and their steps and rows.

        Without padding, ordered by time: the first words of all samples, then the second ones, and so on. Steps and
        rows are int64 [tokens, 2].
        """
        encoded = self.encode(source, source_lengths, random)
        words = tf.transpose(target)  # time-major from here on
        next_inputs = None
        if random is not None and random.sampling_probability is not None:
            next_inputs = self._sampled_inputs(sampling_mask(random, tf.shape(words)[1], words.shape[0]))
        hidden = self._unroll(self.target_embedding(decoder_inputs(words)), encoded, random, next_inputs)
        hidden = dropout(hidden, random, "output")
        # without padding, as most of the work is in the softmax
        positions = tf.where(tf.transpose(tf.sequence_mask(target_lengths, target.shape[1])))
        return tf.gather_nd(hidden, positions), tf.gather_nd(words, positions), positions

    def _sampled_inputs(self, mask: tf.Tensor) -> NextInputs:
        """Replace input words by the most probable output where ``mask``, bool [target steps, batch], is true."""

        def next_inputs(t: int | tf.Tensor, vectors: tf.Tensor, hidden: tf.Tensor) -> tf.Tensor:
            with without_gradient():
                words = tf.argmax(self.output.step_logits(hidden), axis=1, output_type=tf.int32)
            return tf.where(mask[t][:, tf.newaxis], self.target_embedding(words), vectors)

        return next_inputs

    def start_search(
        self, source: tf.Tensor, lengths: tf.Tensor, weights: SearchWeights | None = None
    ) -> tuple[DecoderState, DecoderMemory]:
        """Encode, and :meth:`start`; only for as many source steps as the longest source of the batch has words.

        Args:
            source: ids [batch, source steps], lengths: [batch].
            weights: see :meth:`step`.
        """
        steps = tf.maximum(tf.reduce_max(lengths), 1)
        vectors = self.source_embedding(tf.transpose(source[:, :steps]))
        with using_copies(weights and weights.copies):
            return self.start(self.encoder(vectors, lengths, unrolled=False))

    def start(self, encoded: EncoderOutput) -> tuple[DecoderState, DecoderMemory]:
        """The decoder's state before the first word, and what every step reads."""
        return self.decoder.start(encoded)

    def step(
        self, words: tf.Tensor, state: DecoderState, memory: DecoderMemory, weights: SearchWeights | None = None
    ) -> tuple[tf.Tensor, DecoderState, tf.Tensor | None]:
        """One step of decoding.

        Args:
            words: ids of the previous words, [batch].
            weights: what :meth:`search_weights` returns; faster, but only valid until the variables change.

        Returns:
            logits: [batch, vocabulary], the next state, attention weights: [batch, source steps] or None.
        """
        with using_copies(weights and weights.copies):
            if weights is not None and weights.inputs:
                of_words = tf.nest.map_structure(lambda part: tf.gather(part, words), weights.inputs)
                inputs = self.decoder.add_thought(of_words, memory.thought)
            else:
                inputs = self.decoder.project_inputs(self.target_embedding(words), memory.thought)
            hidden, state, attention = self.decoder.step(inputs, state, memory)
            return self.output.step_logits(hidden, weights and weights.columns), state, attention

    @property
    def weights_of_steps(self) -> list[Weight]:
        """The matrices of the products that depend on the step before, in encoder and decoder."""
        return self.encoder.weights_of_steps + self.decoder.weights_of_steps

    def search_weights(self) -> SearchWeights:
        """What :meth:`start_search` and :meth:`step` can use as long as the variables do not change."""
        table, columns = self.target_embedding.table, tf.transpose(self.output.words)
        weights = self.weights_of_steps
        inputs: StepInputs | Absent = ()
        units = sum(part.shape[-1] for part in tf.nest.flatten(self.decoder.project_inputs(table[:1])))
        if 4 * units * self.vocabulary_size > MAX_PROJECTED_BYTES:
            words = self.decoder.cells[0].input, self.decoder.combine_words
            weights += [weight for weight in words if weight is not None]
        else:
            inputs = self.decoder.project_inputs(tf.convert_to_tensor(table))
        if self.output.projection is not None:
            weights.append(self.output.projection)
        matrices = {weight.matrix.name: weight.matrix for weight in weights} | {self.output.words.name: columns}
        copies = {name: copy for name, matrix in matrices.items() if (copy := copy_matrix(matrix)) is not None}
        return SearchWeights(columns, copies, inputs)


def decoder_inputs(words: tf.Tensor) -> tf.Tensor:
    """The word before each target word; the start marker before the first. words: ids [target steps, batch]."""
    return tf.concat([tf.fill([1, tf.shape(words)[1]], GO), words[:-1]], axis=0)
