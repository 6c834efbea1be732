"""The dynamic decoder: tensorflow-addons' loop over the very same variables as our unrolled graph.

The addons' attention wrapper, basic decoder and beam search decoder are given our cells, our attention's weights and
our output layer. A run trained one way can be decoded the other way, and each checks the other. What is not the same:

- The addons' searches take the softmax themselves. Words that must not come get a logit of :data:`NEVER` and thereby
  lose their share of the probability while it is searched. Scores are those the model gives, as everywhere.
- Beam search goes on until all hypotheses have ended, or until the step limit.
- With a length penalty the addons count the end marker from the step after it came; ours never counts it.
"""

from __future__ import annotations

import warnings
from typing import Any, Optional

import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.corpus.vocabulary import EOS, GO, PAD, UNKNOWN
from seq2seq_chat.decoding.hypotheses import Hypotheses, found_before, length_divisor
from seq2seq_chat.errors import UserError
from seq2seq_chat.model.attention import AdditiveAttention, DotAttention
from seq2seq_chat.model.decoder import Decoder, Replace
from seq2seq_chat.model.dropout import Dropout
from seq2seq_chat.model.encoder import Encoded
from seq2seq_chat.model.seq2seq import Seq2Seq

NEVER = -1e9  # a logit that exp() turns into zero


def load_addons() -> Any:
    """Import tensorflow-addons. Raises UserError where they are not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that their development has ended
            import tensorflow_addons as addons
    except ImportError:
        raise UserError(
            "the dynamic decoder needs tensorflow-addons; install it with: "
            "pip install -c constraints.txt -e '.[dynamic]', or choose unrolling static"
        ) from None
    return addons


class DynamicDecoder:
    """A model's decoder as a loop of the addons.

    Args:
        model: whose variables are used.

    Raises:
        UserError: tensorflow-addons are not installed.
    """

    def __init__(self, model: Seq2Seq) -> None:
        self._addons = load_addons().seq2seq
        self._model = model

    def unroll(
        self,
        vectors: tf.Tensor,
        encoded: Encoded,
        dropout: Optional[Dropout] = None,
        replace: Optional[Replace] = None,
    ) -> tf.Tensor:
        """All steps of training; takes the place of :meth:`Decoder.unroll`, which see."""
        steps, batch = vectors.shape[0], tf.shape(vectors)[1]
        cell, state = self._cell(encoded, dropout)
        if replace is None:
            inputs = drop_words(dropout, vectors)
            sampler: Any = self._addons.TrainingSampler(time_major=True)
            more = {"sequence_length": tf.fill([batch], steps)}
        else:
            inputs, more = None, {}
            sampler = self._given_words(vectors, replace, dropout)
        decoder = self._addons.BasicDecoder(cell, sampler, output_time_major=True, maximum_iterations=steps)
        outputs, _, _ = decoder(inputs, initial_state=state, **more)
        return tf.ensure_shape(outputs.rnn_output, [steps, None, self._model.config.hidden_size])

    def search(self, encoded: Encoded, decoding: Decoding) -> Hypotheses:
        """Replies to encoded utterances, greedy or by beam search."""
        if decoding.method == "greedy":
            words, attention = self._greedy(encoded, decoding)
        else:
            words, attention = self._beam(encoded, decoding)
        return self._scored(encoded, words, attention, decoding)

    def _greedy(self, encoded: Encoded, decoding: Decoding) -> tuple[tf.Tensor, tf.Tensor]:
        """Words [batch, 1, steps], attention [batch, 1, steps, source steps]."""
        cell, state = self._cell(encoded, remembers=True)
        decoder = self._addons.BasicDecoder(
            cell,
            self._addons.GreedyEmbeddingSampler(self._model.target_embedding),
            self._logits(decoding),
            maximum_iterations=self._model.config.decoder_steps,
        )
        batch = tf.shape(encoded.lengths)[0]
        outputs, last, _ = decoder(None, start_tokens=tf.fill([batch], GO), end_token=EOS, initial_state=state)
        history = self._history(last, batch)
        return outputs.sample_id[:, tf.newaxis], history[:, tf.newaxis]

    def _beam(self, encoded: Encoded, decoding: Decoding) -> tuple[tf.Tensor, tf.Tensor]:
        """Words [batch, width, steps], attention [batch, width, steps, source steps]."""
        width, batch = decoding.beam_width, tf.shape(encoded.lengths)[0]
        tiled = tf.nest.map_structure(lambda part: tf.repeat(part, width, axis=0), encoded)
        cell, state = self._cell(tiled, remembers=True)
        decoder = self._addons.BeamSearchDecoder(
            cell,
            width,
            embedding_fn=self._model.target_embedding,
            output_layer=self._logits(decoding),
            length_penalty_weight=decoding.length_penalty,
            maximum_iterations=self._model.config.decoder_steps,
            reorder_tensor_arrays=False,
        )
        outputs, last, _ = decoder(None, start_tokens=tf.fill([batch], GO), end_token=EOS, initial_state=state)
        words = tf.transpose(outputs.predicted_ids, [0, 2, 1])
        history = self._history(last.cell_state, batch * width)
        if not history.shape[2]:
            return words, tf.zeros([batch, width, 0, 0])
        history = tf.reshape(tf.transpose(history, [1, 0, 2]), [tf.shape(history)[1], batch, width, history.shape[2]])
        parents = tf.transpose(outputs.beam_search_decoder_output.parent_ids, [1, 0, 2])
        # a step's attention was paid before the beam was reordered: it stands where the parent stood
        history = tf.gather(history, parents, batch_dims=2)
        lengths = tf.minimum(tf.cast(last.lengths, tf.int32) + 1, tf.shape(history)[0])  # with the end marker
        history = self._addons.gather_tree_from_array(history, parents, lengths)
        return words, tf.transpose(history, [1, 2, 0, 3])

    def _scored(self, encoded: Encoded, words: tf.Tensor, attention: tf.Tensor, decoding: Decoding) -> Hypotheses:
        """Hypotheses with the scores the model gives to their words, best first."""
        steps = self._model.config.decoder_steps
        batch, width = tf.shape(words)[0], words.shape[1]
        missing = steps - tf.shape(words)[2]
        over = tf.cumsum(tf.cast(words == EOS, tf.int32), axis=2, exclusive=True) > 0
        words = tf.pad(tf.where(over | (words < 0), PAD, words), [[0, 0], [0, 0], [0, missing]])
        words = tf.ensure_shape(words, [None, width, steps])
        lengths = tf.reduce_sum(tf.cast(words != PAD, tf.int32), axis=2)
        attention = tf.pad(attention, [[0, 0], [0, 0], [0, steps - tf.shape(attention)[2]], [0, 0]])
        attention = tf.where((words == PAD)[..., tf.newaxis], 0.0, attention)

        tiled = tf.nest.map_structure(lambda part: tf.repeat(part, width, axis=0), encoded)
        flat = tf.reshape(words, [-1, steps])
        scores = self._model.log_probabilities_of(tiled, flat, tf.reshape(lengths, [-1]))
        scores = tf.reshape(scores, [batch, width])
        # a beam wider than the number of sequences has hypotheses that are not there, or are there twice
        scores = tf.where(found_before(words) | (lengths == 0), -float("inf"), scores)
        ended, ranks = tf.reduce_any(words == EOS, axis=2), scores
        if decoding.method == "beam" and decoding.length_penalty:
            ranks = scores / length_divisor(lengths - tf.cast(ended, tf.int32), decoding.length_penalty)
        found = Hypotheses(words, lengths, scores, ended, attention, ranks)
        order = tf.math.top_k(ranks, min(width, decoding.n_best)).indices
        return Hypotheses(*(tf.gather(part, order, batch_dims=1) for part in found))

    def _cell(self, encoded: Encoded, dropout: Optional[Dropout] = None, remembers: bool = False) -> tuple[Any, Any]:
        """The addons' cell and its state before the first word."""
        decoder, batch = self._model.decoder, tf.shape(encoded.lengths)[0]
        cell = OurCells(decoder, self._model.config.embedding_size, dropout)
        state = (*encoded.states, tf.zeros([batch, 1], tf.int64))
        if decoder.attention is None:
            return cell, state
        mechanism = self._mechanism()
        mechanism.setup_memory(encoded.outputs, memory_sequence_length=encoded.lengths)
        wrapper = self._addons.AttentionWrapper(
            cell, mechanism, attention_layer=OurCombination(decoder), alignment_history=remembers
        )
        return wrapper, wrapper.get_initial_state(batch_size=batch, dtype=tf.float32).clone(cell_state=state)

    def _mechanism(self) -> Any:
        attention, hidden = self._model.decoder.attention, self._model.config.hidden_size
        if isinstance(attention, AdditiveAttention):
            query, key = OurProduct(attention.query), OurProduct(attention.key)
            mechanism = self._addons.BahdanauAttention(hidden, query_layer=query, memory_layer=key)
            mechanism.attention_v = attention.score
            return mechanism
        assert isinstance(attention, DotAttention)
        return self._addons.LuongAttention(hidden, memory_layer=OurProduct(attention.keys))

    def _logits(self, decoding: Decoding) -> Any:
        forbidden = [PAD, GO] if decoding.allow_unknown else [PAD, GO, UNKNOWN]
        return OurLogits(self._model, forbidden)

    def _history(self, state: Any, rows: tf.Tensor) -> tf.Tensor:
        """The attention of all steps, [rows, steps, source steps]; no source steps without attention."""
        if self._model.decoder.attention is None:
            return tf.zeros([rows, 0, 0])
        history = state.alignment_history
        history = history.stack() if isinstance(history, tf.TensorArray) else history
        history = tf.reshape(history, [tf.shape(history)[0], rows, self._model.config.encoder_steps])
        return tf.transpose(history, [1, 0, 2])

    def _given_words(self, vectors: tf.Tensor, replace: Replace, dropout: Optional[Dropout]) -> Any:
        """A sampler of the addons that gives the words of scheduled sampling."""
        steps = vectors.shape[0]

        def begin(*_: Any) -> tuple[tf.Tensor, tf.Tensor]:
            return tf.zeros([tf.shape(vectors)[1]], tf.bool), drop_words(dropout, vectors[0], 0)

        def no_choice(time: tf.Tensor, outputs: tf.Tensor, state: Any) -> tf.Tensor:
            return tf.zeros([tf.shape(outputs)[0]], tf.int32)

        def following(time: tf.Tensor, outputs: tf.Tensor, state: Any, sample_ids: tf.Tensor) -> tuple[Any, ...]:
            t = tf.minimum(time + 1, steps - 1)
            given = drop_words(dropout, replace(t, vectors[t], outputs), t)
            return tf.fill([tf.shape(outputs)[0]], time + 1 >= steps), given, state

        return self._addons.CustomSampler(begin, no_choice, following)


class OurCells(tf.keras.layers.Layer):
    """The decoder's stacked cells as one cell of Keras. Input: [x; h̃], state: (the states of the layers, time)."""

    def __init__(self, decoder: Decoder, known: int, dropout: Optional[Dropout]) -> None:
        super().__init__()
        self._decoder, self._known, self._dropout = decoder, known, dropout
        self.output_size = decoder.cells[0].hidden
        # the time comes last: the addons take the type of their outputs from the first part of a state
        self.state_size = (*(cell.STATE(*(cell.hidden for _ in cell.STATE._fields)) for cell in decoder.cells), 1)

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Zeros; the encoder's states take their place."""
        return (*(cell.zero_state(batch_size) for cell in self._decoder.cells), tf.zeros([batch_size, 1], tf.int64))

    def call(self, inputs: tf.Tensor, states: Any) -> tuple[tf.Tensor, Any]:
        """One step: the output of the top layer, and the next state."""
        *cells, time = states
        x, fed = inputs[:, : self._known], inputs[:, self._known :]
        prepared = self._decoder.prepare(x)
        fed = fed if self._decoder.attention is not None else None
        after = self._decoder.advance(prepared, fed, cells, self._dropout, time[0, 0])
        return after[-1].output, (*after, time + 1)


class OurCombination(tf.keras.layers.Layer):
    """h̃ = tanh(W_c [d; c]) of the decoder's output and the context, side by side."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self._decoder = decoder

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """[batch, hidden + source units] → [batch, hidden]."""
        hidden = self._decoder.cells[0].hidden
        output, context = inputs[:, :hidden], inputs[:, hidden:]
        assert self._decoder.combine_context is not None
        assert self._decoder.combine_output is not None
        return tf.tanh(self._decoder.combine_context(context) + self._decoder.combine_output(output))

    def compute_output_shape(self, shape: Any) -> Any:
        """The last dimension becomes that of the state."""
        return tf.TensorShape([*shape[:-1], self._decoder.cells[0].hidden])


class OurProduct(tf.keras.layers.Layer):
    """A product with one of our weights."""

    def __init__(self, product: Any) -> None:
        super().__init__()
        self._product = product

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """[..., inputs] → [..., outputs]."""
        return self._product(inputs)


class OurLogits(tf.keras.layers.Layer):
    """From h̃ to logits, those of words that must not come so low that they never do."""

    def __init__(self, model: Seq2Seq, forbidden: list[int]) -> None:
        super().__init__()
        self._model, self._forbidden = model, forbidden

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """[..., hidden] → [..., vocabulary]."""
        output = self._model.output
        flat = tf.reshape(inputs, [-1, self._model.config.hidden_size])
        logits = output.logits_of_few(output.project(flat))
        barred = tf.reduce_any(tf.range(output.vocabulary_size)[:, tf.newaxis] == self._forbidden, axis=1)
        logits = tf.where(barred, NEVER, logits)
        return tf.reshape(logits, tf.concat([tf.shape(inputs)[:-1], [output.vocabulary_size]], axis=0))

    def compute_output_shape(self, shape: Any) -> Any:
        """The last dimension becomes the vocabulary."""
        return tf.TensorShape([*shape[:-1], self._model.output.vocabulary_size])


def drop_words(dropout: Optional[Dropout], vectors: tf.Tensor, time: Any = None) -> tf.Tensor:
    """The dropout of the words that the decoder is given."""
    return vectors if dropout is None else dropout(vectors, "decoder/words", time)
