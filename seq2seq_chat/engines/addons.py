"""The dynamic decoder: the loop of tensorflow-addons over the same variables as our unrolled graph.

The addons' attention wrapper, basic decoder and beam search decoder use our cells, attention weights and output layer.
A run trained with either can be decoded with the other, so each implementation checks the other. Differences:

- The addons' searches apply the softmax themselves. Forbidden words get a logit of :data:`MASK_VALUE`, so the others
  gain probability during the search. The model's scores are reported, as in our searches.
- Beam search continues until all hypotheses have ended or reached the step limit.
- With a length penalty the addons count the end marker from the step after it; ours never counts it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from seq2seq_chat.architecture.variables import MASK_VALUE
from seq2seq_chat.config import Decoding, Model
from seq2seq_chat.decoding.search import is_duplicate, length_divisor, reorder_state, repeat_rows
from seq2seq_chat.model.attention import AdditiveAttention, DotAttention
from seq2seq_chat.model.decoder import Absent, Decoder, NextInputs, StepInputs
from seq2seq_chat.model.encoder import EncoderOutput
from seq2seq_chat.model.randomness import RandomContext, dropout
from seq2seq_chat.model.seq2seq import Seq2Seq, decoder_inputs
from seq2seq_chat.search.engine import NEG_INF, Hypotheses
from seq2seq_chat.search.logit_rules import forbidden_ids
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.vocabulary import EOS, GO, PAD


def build_model(config: Model, vocabulary_size: int, seed: int, source_vocabulary_size: int | None = None) -> Seq2Seq:
    """A model to train, whose decoder is unrolled as configured; arguments as for :class:`Seq2Seq`.

    Raises:
        UserError: the configuration requires tensorflow-addons, which could not be imported.
    """
    unroll = (lambda decoder: DynamicDecoder(decoder).unroll) if config.unrolling == "dynamic" else None
    return Seq2Seq(config, vocabulary_size, seed, source_vocabulary_size, unroll)


def load_addons() -> Any:
    """Import tensorflow-addons without its notice of the end of development. Raises UserError if that fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import tensorflow_addons as addons
    except ImportError as error:
        raise UserError(
            f"could not import tensorflow-addons ({error}), which unrolling dynamic needs; install it with: "
            "pip install -c constraints.txt -e ."
        ) from error
    return addons


class DynamicDecoder:
    """A decoder that runs in the addons' loop.

    Raises:
        UserError: tensorflow-addons could not be imported.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._addons = load_addons().seq2seq
        self._decoder = decoder

    def unroll(
        self,
        vectors: tf.Tensor,
        encoded: EncoderOutput,
        random: RandomContext | None = None,
        next_inputs: NextInputs | None = None,
    ) -> tf.Tensor:
        """All steps of training; an alternative to :meth:`Decoder.unroll`."""
        steps, batch = vectors.shape[0], tf.shape(vectors)[1]
        cell, state = self.cell(encoded, random)
        if next_inputs is None:
            inputs = dropout(vectors, random, "decoder/words")
            sampler: Any = self._addons.TrainingSampler(time_major=True)
            options = {"sequence_length": tf.fill([batch], steps)}
        else:
            inputs, options = None, {}
            sampler = self._scheduled_sampler(vectors, next_inputs, random)
        decoder = self._addons.BasicDecoder(cell, sampler, output_time_major=True, maximum_iterations=steps)
        outputs, _, _ = decoder(inputs, initial_state=state, **options)
        return tf.ensure_shape(outputs.rnn_output, [steps, None, self._decoder.config.hidden_size])

    def cell(
        self, encoded: EncoderOutput, random: RandomContext | None = None, alignment_history: bool = False
    ) -> tuple[Any, Any]:
        """The decoder as a cell of the addons, and its state before the first word."""
        decoder, batch = self._decoder, tf.shape(encoded.lengths)[0]
        cell = StackedCells(decoder, random, decoder.project_thought(encoded))
        state = (*encoded.states, tf.zeros([batch, 1], tf.int64))
        if decoder.attention is None:
            return cell, state
        mechanism = self._attention_mechanism()
        # An empty source may attend to its first step, whose output is zero: the addons refuse lengths of 0.
        mechanism.setup_memory(encoded.outputs, memory_sequence_length=tf.maximum(encoded.lengths, 1))
        wrapper = self._addons.AttentionWrapper(
            cell,
            mechanism,
            attention_layer=FunctionLayer(self._combine, decoder.config.hidden_size),
            alignment_history=alignment_history,
            cell_input_fn=None if decoder.feeds_output else lambda inputs, _: inputs,
        )
        return wrapper, wrapper.get_initial_state(batch_size=batch, dtype=tf.float32).clone(cell_state=state)

    def _combine(self, inputs: tf.Tensor) -> tf.Tensor:
        """h̃ = tanh(W_c [d; c]) of [d; c]: [batch, hidden + encoder output size] → [batch, hidden]."""
        decoder, hidden_size = self._decoder, self._decoder.config.hidden_size
        output, context = inputs[:, :hidden_size], inputs[:, hidden_size:]
        assert decoder.combine_context is not None
        assert decoder.combine_output is not None
        return tf.tanh(decoder.combine_context(context) + decoder.combine_output(output))

    def _attention_mechanism(self) -> Any:
        attention, hidden_size = self._decoder.attention, self._decoder.config.hidden_size
        if isinstance(attention, AdditiveAttention):
            query, key = FunctionLayer(attention.query, hidden_size), FunctionLayer(attention.key, hidden_size)
            mechanism = self._addons.BahdanauAttention(hidden_size, query_layer=query, memory_layer=key)
            mechanism.attention_v = attention.score
            return mechanism
        assert isinstance(attention, DotAttention)
        return self._addons.LuongAttention(hidden_size, memory_layer=FunctionLayer(attention.keys, hidden_size))

    def _scheduled_sampler(self, vectors: tf.Tensor, next_inputs: NextInputs, random: RandomContext | None) -> Any:
        """A sampler of the addons that computes the inputs of scheduled sampling."""
        steps = vectors.shape[0]

        def initialize(*_: Any) -> tuple[tf.Tensor, tf.Tensor]:
            return tf.zeros([tf.shape(vectors)[1]], tf.bool), dropout(vectors[0], random, "decoder/words", 0)

        def sample(outputs: tf.Tensor, **_: Any) -> tf.Tensor:
            return tf.zeros([tf.shape(outputs)[0]], tf.int32)  # unused: next_inputs chooses the words

        def advance(time: tf.Tensor, outputs: tf.Tensor, state: Any, **_: Any) -> tuple[Any, ...]:
            t = tf.minimum(time + 1, steps - 1)
            inputs = dropout(next_inputs(t, vectors[t], outputs), random, "decoder/words", t)
            return tf.fill([tf.shape(outputs)[0]], time + 1 >= steps), inputs, state

        return self._addons.CustomSampler(initialize, sample, advance)


class DynamicSearch:
    """The addons' greedy search and beam search.

    Args:
        model: its variables may change between searches.
        decoding: method, beam width, length penalty and whether unknown words are allowed.

    Raises:
        UserError: tensorflow-addons could not be imported.
    """

    def __init__(self, model: Seq2Seq, decoding: Decoding) -> None:
        self._addons = load_addons().seq2seq
        self._model, self._decoding = model, decoding
        self._decoder = DynamicDecoder(model.decoder)
        self._logits = FunctionLayer(self._allowed_logits, model.output.vocabulary_size)

    def __call__(self, encoded: EncoderOutput) -> Hypotheses:
        """Replies to encoded utterances."""
        words, attention = self._greedy(encoded) if self._decoding.method == "greedy" else self._beam(encoded)
        return self._score(encoded, words, attention)

    def _allowed_logits(self, hidden: tf.Tensor) -> tf.Tensor:
        """h̃ → logits, with :data:`MASK_VALUE` for forbidden words: [..., hidden] → [..., vocabulary]."""
        output, forbidden = self._model.output, forbidden_ids(self._decoding.allow_unknown)
        logits = output.step_logits(tf.reshape(hidden, [-1, self._model.config.hidden_size]))
        is_forbidden = tf.reduce_any(tf.range(output.vocabulary_size)[:, tf.newaxis] == forbidden, axis=1)
        shape = tf.concat([tf.shape(hidden)[:-1], [output.vocabulary_size]], axis=0)
        return tf.reshape(tf.where(is_forbidden, MASK_VALUE, logits), shape)

    def _greedy(self, encoded: EncoderOutput) -> tuple[tf.Tensor, tf.Tensor]:
        """Words [batch, 1, steps], attention [batch, 1, steps, source steps]."""
        cell, state = self._decoder.cell(encoded, alignment_history=True)
        decoder = self._addons.BasicDecoder(
            cell,
            self._addons.GreedyEmbeddingSampler(self._model.target_embedding),
            self._logits,
            maximum_iterations=self._model.config.decoder_steps,
        )
        batch = tf.shape(encoded.lengths)[0]
        outputs, final, _ = decoder(None, start_tokens=tf.fill([batch], GO), end_token=EOS, initial_state=state)
        return outputs.sample_id[:, tf.newaxis], self._alignments(final, batch)[:, tf.newaxis]

    def _beam(self, encoded: EncoderOutput) -> tuple[tf.Tensor, tf.Tensor]:
        """Words [batch, width, steps], attention [batch, width, steps, source steps]."""
        width, batch = self._decoding.beam_width, tf.shape(encoded.lengths)[0]
        cell, state = self._decoder.cell(repeat_rows(encoded, width), alignment_history=True)
        decoder = self._addons.BeamSearchDecoder(
            cell,
            width,
            embedding_fn=self._model.target_embedding,
            output_layer=self._logits,
            length_penalty_weight=self._decoding.length_penalty,
            maximum_iterations=self._model.config.decoder_steps,
            reorder_tensor_arrays=False,
        )
        outputs, final, _ = decoder(None, start_tokens=tf.fill([batch], GO), end_token=EOS, initial_state=state)
        words = tf.transpose(outputs.predicted_ids, [0, 2, 1])
        alignments = self._alignments(final.cell_state, batch * width)
        source_steps = alignments.shape[2]
        if not source_steps:
            return words, tf.zeros([batch, width, 0, 0])
        steps = tf.shape(alignments)[1]
        alignments = tf.reshape(tf.transpose(alignments, [1, 0, 2]), [steps, batch, width, source_steps])
        parents = tf.transpose(outputs.beam_search_decoder_output.parent_ids, [1, 0, 2])
        # the alignments of a step precede the reordering of its beam: move them to the children
        alignments = tf.gather(alignments, parents, batch_dims=2)
        lengths = tf.minimum(tf.cast(final.lengths, tf.int32) + 1, steps)  # with the end marker
        alignments = self._addons.gather_tree_from_array(alignments, parents, lengths)
        return words, tf.transpose(alignments, [1, 2, 0, 3])

    def _alignments(self, state: Any, rows: tf.Tensor) -> tf.Tensor:
        """The attention of all steps, [rows, steps, source steps]; no source steps without attention."""
        if self._model.decoder.attention is None:
            return tf.zeros([rows, 0, 0])
        history = state.alignment_history
        history = history.stack() if isinstance(history, tf.TensorArray) else history
        history = tf.reshape(history, [tf.shape(history)[0], rows, self._model.config.encoder_steps])
        return tf.transpose(history, [1, 0, 2])

    def _score(self, encoded: EncoderOutput, words: tf.Tensor, attention: tf.Tensor) -> Hypotheses:
        """Hypotheses, best first, with the log-probabilities that the model assigns to their words."""
        steps, width, decoding = self._model.config.decoder_steps, words.shape[1], self._decoding
        missing = steps - tf.shape(words)[2]
        after_end = tf.cumsum(tf.cast(words == EOS, tf.int32), axis=2, exclusive=True) > 0
        words = tf.pad(tf.where(after_end | (words < 0), PAD, words), [[0, 0], [0, 0], [0, missing]])
        words = tf.ensure_shape(words, [None, width, steps])
        lengths = tf.reduce_sum(tf.cast(words != PAD, tf.int32), axis=2)
        attention = tf.pad(attention, [[0, 0], [0, 0], [0, steps - tf.shape(attention)[2]], [0, 0]])
        attention = tf.where((words == PAD)[..., tf.newaxis], 0.0, attention)

        flat_words, flat_lengths = tf.reshape(words, [-1, steps]), tf.reshape(lengths, [-1])
        scores = self._log_probabilities(repeat_rows(encoded, width), flat_words, flat_lengths)
        scores = tf.reshape(scores, [-1, width])
        # a beam wider than the number of possible sequences has empty and duplicate hypotheses
        scores = tf.where(is_duplicate(words) | (lengths == 0), NEG_INF, scores)
        ended, ranks = tf.reduce_any(words == EOS, axis=2), scores
        if decoding.method == "beam" and decoding.length_penalty:
            ranks = scores / length_divisor(lengths - tf.cast(ended, tf.int32), decoding.length_penalty)
        order = tf.math.top_k(ranks, min(width, decoding.n_best)).indices
        return reorder_state(Hypotheses(words, lengths, scores, ended, attention, ranks), order)

    def _log_probabilities(self, encoded: EncoderOutput, target: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """log P(target | source), [rows]. Computing the softmax step by step bounds the memory."""
        model, words = self._model, tf.transpose(target)
        hidden = model.decoder.unroll(model.target_embedding(decoder_inputs(words)), encoded)
        mask = tf.transpose(tf.sequence_mask(lengths, target.shape[1], dtype=tf.float32))
        return tf.add_n([-mask[t] * model.output.full_loss(hidden[t], words[t]) for t in range(words.shape[0])])


class StackedCells(tf.keras.layers.Layer):
    """The decoder's cells as one Keras cell. Input: [x; h̃], or x; state: (states of the layers, time)."""

    def __init__(self, decoder: Decoder, random: RandomContext | None, thought: StepInputs | Absent) -> None:
        super().__init__()
        self._decoder, self._random, self._thought = decoder, random, thought
        self.output_size = decoder.config.hidden_size
        # time comes last: the addons take the type of their outputs from the first part of a state
        self.state_size = (
            *(cell.STATE(*(cell.hidden_size for _ in cell.STATE._fields)) for cell in decoder.cells),
            1,
        )

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Zeros, which the encoder's states replace."""
        return (*(cell.zero_state(batch_size) for cell in self._decoder.cells), tf.zeros([batch_size, 1], tf.int64))

    def call(self, inputs: tf.Tensor, states: Any) -> tuple[tf.Tensor, Any]:
        *cells, time = states
        embedding_size = self._decoder.config.embedding_size
        x, attentional = inputs[:, :embedding_size], inputs[:, embedding_size:]
        projected = self._decoder.project_inputs(x, self._thought).cell
        attentional = attentional if self._decoder.feeds_output else None
        cells = self._decoder.step_cells(projected, attentional, cells, self._random, time[0, 0])
        return self._decoder.top_output(cells), (*cells, time + 1)


class FunctionLayer(tf.keras.layers.Layer):
    """A function of the model as a Keras layer. size: of the last axis of its output."""

    def __init__(self, function: Callable[[tf.Tensor], tf.Tensor], size: int) -> None:
        super().__init__()
        self._function, self._size = function, size

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return self._function(inputs)

    def compute_output_shape(self, shape: Any) -> Any:
        return tf.TensorShape([*shape[:-1], self._size])
