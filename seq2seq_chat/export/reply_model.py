"""From what is said to what is answered, strings at both ends, as one graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.corpus.vocabulary import EOS, PAD, TURN, UNKNOWN
from seq2seq_chat.decoding.hypotheses import Hypotheses
from seq2seq_chat.decoding.reply_search import ReplySearch
from seq2seq_chat.exporting.tokens import Tokenizer, detokenize
from seq2seq_chat.model.seq2seq import Seq2Seq

NEVER = -float("inf")


class Source(tf.Module):
    """What the model reads: :meth:`seq2seq_chat.chatbot.Chatbot.replies` up to the search, as a graph."""

    def __init__(self, words: tf.lookup.StaticHashTable, config: Config) -> None:
        super().__init__()
        self._words, self._tokenizer = words, Tokenizer(config.data.level)
        self._turns, self._reverse, self._steps = (
            config.data.context_turns,
            config.data.reverse_input,
            config.model.encoder_steps,
        )

    def __call__(self, text: tf.Tensor, history: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """text: strings [batch], history: the turns before each, strings [batch, turns], oldest first, "" for none.

        Returns:
            the words that are read, in the order they were written: strings [batch, (words)]; whether something can
            be read in the text itself: bool [batch].
        """
        said = self._tokenizer(text)
        words = said if self._turns == 1 else tf.concat([self._before(history), said], axis=1)
        return words[:, -self._steps :], said.row_lengths() > 0

    def ids(self, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Words [batch, (words)] → their ids as the encoder is given them, int32 [batch, steps], and their number."""
        ids = tf.ragged.map_flat_values(self._words.lookup, words)
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        source = tf.cast(ids.to_tensor(PAD, shape=[None, self._steps]), tf.int32)
        return (tf.reverse_sequence(source, lengths, seq_axis=1) if self._reverse else source), lengths

    def _before(self, history: tf.Tensor) -> tf.RaggedTensor:
        """The words of the last turns that say anything, each with the marker behind it: [batch, (words)]."""
        batch, turns = tf.unstack(tf.shape(history, tf.int64))
        words = self._tokenizer(tf.reshape(history, [-1]))
        speaks = tf.reshape(words.row_lengths() > 0, [batch, turns])
        later = tf.cumsum(tf.cast(speaks, tf.int32), axis=1, exclusive=True, reverse=True)
        kept = tf.where(tf.reshape(speaks & (later < self._turns - 1), [-1]))[:, 0]
        marker = tf.fill([tf.size(kept), 1], TURN)
        words = tf.concat([tf.gather(words, kept), tf.RaggedTensor.from_tensor(marker)], axis=1)
        owners = tf.gather(kept // tf.maximum(turns, 1), words.value_rowids())
        return tf.RaggedTensor.from_value_rowids(words.values, owners, batch)


class Answers(tf.Module):
    """A model that answers strings with strings; what a SavedModel is made of.

    Args:
        model: with its trained weights.
        vocabulary: the file with its words, which becomes a part of the SavedModel.
        config: of its run.
        searches: ways of decoding by the names of the signatures.
    """

    def __init__(self, model: Seq2Seq, vocabulary: Path, config: Config, searches: Mapping[str, Decoding]) -> None:
        super().__init__()
        self.model = model
        lines, whole = tf.lookup.TextFileIndex.LINE_NUMBER, tf.lookup.TextFileIndex.WHOLE_LINE
        file = str(vocabulary)
        ids = tf.lookup.TextFileInitializer(file, tf.string, whole, tf.int64, lines)
        words = tf.lookup.TextFileInitializer(file, tf.int64, lines, tf.string, whole)
        self.ids = tf.lookup.StaticHashTable(ids, UNKNOWN)
        self.words = tf.lookup.StaticHashTable(words, "")
        self.source = Source(self.ids, config)
        self._config = config
        self.graphs = {name: self._graph(decoding) for name, decoding in searches.items()}

    def _graph(self, decoding: Decoding) -> Any:
        """The signature of one way of decoding: text [batch] → reply and score [batch], of a beam [batch, n_best]."""
        search = ReplySearch(self.model, decoding)
        text = tf.TensorSpec([None], tf.string, "text")
        history = tf.TensorSpec([None, None], tf.string, "history")

        def answer(text: tf.Tensor, history: tf.Tensor) -> dict[str, tf.Tensor]:
            replies, scores = self._answer(search, decoding, text, history)
            if decoding.method == "greedy":
                return {"reply": replies[:, 0], "score": scores[:, 0]}
            return {"replies": replies, "scores": scores}

        def answer_alone(text: tf.Tensor) -> dict[str, tf.Tensor]:
            return answer(text, tf.zeros([tf.shape(text)[0], 0], tf.string))

        if self._config.data.context_turns > 1:
            return tf.function(answer, autograph=False, input_signature=[text, history])
        return tf.function(answer_alone, autograph=False, input_signature=[text])

    def _answer(
        self, search: ReplySearch, decoding: Decoding, text: tf.Tensor, history: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Replies, strings [batch, n], and their scores [batch, n]: "" and -inf where there is none."""
        read, readable = self.source(text, history)
        rows = tf.where(readable)[:, 0]
        read = tf.gather(read, rows)
        found = search.search(*self.source.ids(read))
        texts = self._texts(found, read, decoding.replace_unknown)
        shape = [tf.shape(text)[0], decoding.n_best]
        places = rows[:, tf.newaxis]
        return (
            tf.tensor_scatter_nd_update(tf.fill(shape, ""), places, tf.where(found.scores == NEVER, "", texts)),
            tf.tensor_scatter_nd_update(tf.fill(shape, NEVER), places, found.scores),
        )

    def _texts(self, found: Hypotheses, read: tf.RaggedTensor, replace_unknown: bool) -> tf.Tensor:
        """The words of hypotheses as strings [batch, n]. read: the words of the source, [batch, (words)]."""
        words = self.words.lookup(tf.cast(found.words, tf.int64))
        if replace_unknown and found.attention.shape[-1]:
            place = tf.argmax(found.attention, axis=3, output_type=tf.int64)
            if self._config.data.reverse_input:
                place = read.row_lengths()[:, tf.newaxis, tf.newaxis] - 1 - place
            copies = tf.gather(read.to_tensor(""), tf.maximum(place, 0), batch_dims=1)
            words = tf.where(found.words == UNKNOWN, copies, words)
        spoken = tf.sequence_mask(found.lengths, found.words.shape[2]) & (found.words != EOS)
        steps = found.words.shape[2]
        flat = tf.ragged.boolean_mask(tf.reshape(words, [-1, steps]), tf.reshape(spoken, [-1, steps]))
        return tf.reshape(detokenize(flat, self._config.data.level), tf.shape(found.lengths))
