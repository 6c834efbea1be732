"""The contents of a SavedModel: a graph from utterances to replies, or one that continues and scores texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.config import Config, Data, Decoding
from seq2seq_chat.decoding.methods import truncated_softmax
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.engines.tensorflow.search import GraphSearch
from seq2seq_chat.export.saved_model.graph_tokenizer import (
    GRAPH_TOKENIZERS,
    TOKENS,
    GraphTokenizer,
    ids_table,
    words_table,
)
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.search.engine import ALL_PROBABILITY, ALL_WORDS, NEG_INF, Hypotheses
from seq2seq_chat.text.codec import TextCodec
from seq2seq_chat.text.vocabulary import EOS, PAD, SPECIAL_WORDS, TARGET_PREFIX, TURN, UNKNOWN, VOCABULARY_FILE


def text_format(tokenizer: str) -> str:
    """What a SavedModel reads or writes where chat has text: "text", or "tokens" separated by spaces."""
    return "text" if tokenizer in GRAPH_TOKENIZERS else "tokens"


def has_equal_tokenizers(data: Data) -> bool:
    """Whether source and target have the same tokens for the same text."""
    source, target = data.source_text, data.target_text
    return data.has_shared_vocabulary or source.tokenizer == target.tokenizer != "subword"


class ReplyModel(tf.Module):
    """The contents of a SavedModel: a model that replies to strings with strings.

    Args:
        folder: The folder with the vocabulary files, which are copied into the SavedModel.
        searches: Decoding settings by signature name.
    """

    def __init__(self, model: Seq2Seq, folder: Path, config: Config, searches: Mapping[str, Decoding]) -> None:
        super().__init__()
        self.model, self._data = model, config.data
        target_prefix = "" if config.data.has_shared_vocabulary else TARGET_PREFIX
        self.ids = ids_table(folder / VOCABULARY_FILE)
        self.words = words_table(folder / f"{target_prefix}{VOCABULARY_FILE}")
        self.source_tokenizer, self.target_tokenizer = (
            GraphTokenizer(text.tokenizer if text_format(text.tokenizer) == "text" else TOKENS)
            for text in (config.data.source_text, config.data.target_text)
        )
        self._turns, self._reverse = config.data.context_turns, config.data.reverse_input
        self._steps = config.model.encoder_steps
        self.functions = {name: self._signature(decoding) for name, decoding in searches.items()}

    def _signature(self, decoding: Decoding) -> Any:
        """The graph of one signature: text [batch] → reply and score [batch]; with a beam [batch, n_best]."""
        search = GraphSearch(self.model, decoding)
        text = tf.TensorSpec([None], tf.string, text_format(self._data.source_text.tokenizer))
        history = tf.TensorSpec([None, None], tf.string, "history")

        def reply_with_history(text: tf.Tensor, history: tf.Tensor) -> dict[str, tf.Tensor]:
            replies, scores = self._replies(search, decoding, text, history)
            if decoding.method == "greedy":
                return {"reply": replies[:, 0], "score": scores[:, 0]}
            return {"replies": replies, "scores": scores}

        def reply(text: tf.Tensor) -> dict[str, tf.Tensor]:
            return reply_with_history(text, tf.zeros([tf.shape(text)[0], 0], tf.string))

        if self._turns > 1:
            return tf.function(reply_with_history, autograph=False, input_signature=[text, history])
        return tf.function(reply, autograph=False, input_signature=[text])

    def _replies(
        self, search: GraphSearch, decoding: Decoding, text: tf.Tensor, history: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Replies, strings [batch, n], and their scores [batch, n]; "" and -inf for none."""
        tokens, has_words = self._source_tokens(text, history)
        rows = tf.where(has_words)[:, 0]
        tokens = tf.gather(tokens, rows)
        hypotheses = search.search(*self._source_ids(tokens))
        texts = self._texts(hypotheses, tokens, decoding.replace_unknown)
        texts = tf.where(hypotheses.scores == NEG_INF, "", texts)
        shape, indices = [tf.shape(text)[0], decoding.n_best], rows[:, tf.newaxis]
        return (
            tf.tensor_scatter_nd_update(tf.fill(shape, ""), indices, texts),
            tf.tensor_scatter_nd_update(tf.fill(shape, NEG_INF), indices, hypotheses.scores),
        )

    def _source_tokens(self, text: tf.Tensor, history: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """The tokens that the model reads, as in :meth:`Chatbot.replies`.

        Args:
            text: Strings [batch], or tokens separated by spaces.
            history: The turns before each text, oldest first: strings [batch, turns], "" for none.

        Returns:
            The tokens in the order of the text, strings [batch, (tokens)], and whether the text itself has any, bool
            [batch].
        """
        words = self.source_tokenizer.encode(text)
        source = words if self._turns == 1 else tf.concat([self._context(history), words], axis=1)
        return source[:, -self._steps :], words.row_lengths() > 0

    def _source_ids(self, tokens: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Tokens [batch, (tokens)] → ids as the encoder reads them, int32 [batch, steps], and their number [batch]."""
        ids = tf.ragged.map_flat_values(self.ids.lookup, tokens)
        ids = tf.where(ids < len(SPECIAL_WORDS), tf.constant(UNKNOWN, tf.int64), ids)  # a text cannot contain others
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        source = tf.cast(ids.to_tensor(PAD, shape=[None, self._steps]), tf.int32)
        return (tf.reverse_sequence(source, lengths, seq_axis=1) if self._reverse else source), lengths

    def _context(self, history: tf.Tensor) -> tf.RaggedTensor:
        """The tokens of the last turns that are not empty, each followed by the marker: [batch, (tokens)]."""
        batch, turns = tf.unstack(tf.shape(history, tf.int64))
        words = self.source_tokenizer.encode(tf.reshape(history, [-1]))
        has_words = tf.reshape(words.row_lengths() > 0, [batch, turns])
        later_turns = tf.cumsum(tf.cast(has_words, tf.int32), axis=1, exclusive=True, reverse=True)
        kept = tf.where(tf.reshape(has_words & (later_turns < self._turns - 1), [-1]))[:, 0]
        marker = tf.fill([tf.size(kept), 1], TURN)
        words = tf.concat([tf.gather(words, kept), tf.RaggedTensor.from_tensor(marker)], axis=1)
        rows = tf.gather(kept // tf.maximum(turns, 1), words.value_rowids())
        return tf.RaggedTensor.from_value_rowids(words.values, rows, batch)

    def _texts(self, hypotheses: Hypotheses, source: tf.RaggedTensor, replace_unknown: bool) -> tf.Tensor:
        """The texts of hypotheses, strings [batch, n]. source: the tokens replied to, [batch, (tokens)]."""
        words = self.words.lookup(tf.cast(hypotheses.words, tf.int64))
        if replace_unknown and hypotheses.attention.shape[-1]:
            position = tf.argmax(hypotheses.attention, axis=3, output_type=tf.int64)
            if self._reverse:
                position = source.row_lengths()[:, tf.newaxis, tf.newaxis] - 1 - position
            copies = tf.ragged.map_flat_values(self._copies, source).to_tensor("")
            copies = tf.gather(copies, tf.maximum(position, 0), batch_dims=1)
            words = tf.where(hypotheses.words == UNKNOWN, copies, words)
        steps = hypotheses.words.shape[2]
        is_word = tf.sequence_mask(hypotheses.lengths, steps) & (hypotheses.words != EOS) & (words != "")
        flat = tf.ragged.boolean_mask(tf.reshape(words, [-1, steps]), tf.reshape(is_word, [-1, steps]))
        if replace_unknown:  # by any number of tokens
            flat = tf.strings.split(tf.strings.reduce_join(flat, axis=1, separator=" "))
        return tf.reshape(self.target_tokenizer.decode(flat), tf.shape(hypotheses.lengths))

    def _copies(self, source: tf.Tensor) -> tf.Tensor:
        """What replaces an unknown word that attends to each of these source tokens, [n].

        Tokens of the target, separated by spaces: [n]. If one of the tokenizers is not in the graph, the token itself.
        """
        copies = source
        formats = {text_format(text.tokenizer) for text in (self._data.source_text, self._data.target_text)}
        if not has_equal_tokenizers(self._data) and formats == {"text"}:
            texts = self.source_tokenizer.decode(tf.RaggedTensor.from_tensor(source[:, tf.newaxis]))
            converted = tf.strings.reduce_join(self.target_tokenizer.encode(texts), axis=1, separator=" ")
            copies = tf.where(source == SPECIAL_WORDS[UNKNOWN], source, converted)
        return tf.where(source == TURN, "", copies)


def running_text_format(codec: TextCodec) -> str:
    """What a SavedModel of a language model reads and writes: "text", or "tokens" separated by spaces."""
    return "text" if codec.tokenizer.keeps_line_breaks else "tokens"


class TextModel(tf.Module):
    """The contents of a SavedModel: a language model that continues a string, and scores one.

    Args:
        codec: The codec that the model was trained with.
        folder: The folder with the vocabulary file, which is copied into the SavedModel.
        decoding: Whether unknown tokens are allowed.
    """

    def __init__(self, engine: TensorFlowLanguageModel, codec: TextCodec, folder: Path, decoding: Decoding) -> None:
        super().__init__()
        self.model = engine.model
        self._engine, generator = engine, Generator(engine, codec)
        self._line_break, self._mask = generator.line_break, engine.output_mask(generator.forbidden(decoding))
        self.ids = ids_table(folder / VOCABULARY_FILE)
        self.words = words_table(folder / VOCABULARY_FILE)
        self._format = running_text_format(codec)
        self.tokenizer = GraphTokenizer("character" if self._format == "text" else TOKENS)
        text = tf.TensorSpec([], tf.string, self._format)
        limits = [
            tf.TensorSpec([], dtype, name)
            for name, dtype in (("temperature", tf.float32), ("top_k", tf.int32), ("top_p", tf.float32))
        ]
        uniform = tf.TensorSpec([None, None], tf.float64, "uniform")
        self.functions: dict[str, Any] = {
            "generate": tf.function(self._generate, autograph=False, input_signature=[text, uniform, *limits]),
            "score": tf.function(self._score, autograph=False, input_signature=[text]),
        }

    def _generate(
        self, text: tf.Tensor, uniform: tf.Tensor, temperature: tf.Tensor, top_k: tf.Tensor, top_p: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Continuations of a prompt, strings [n]. uniform: random numbers, [n, tokens]."""
        ids = self._ids(text)
        ids = tf.cond(tf.size(ids) > 0, lambda: ids, lambda: tf.constant([self._line_break]))
        _, states = self.model.read(ids[tf.newaxis, :-1], self.model.start(1))
        rows = tf.shape(uniform)[0]
        states = tf.nest.map_structure(lambda state: tf.repeat(state, rows, axis=0), states)
        distribution = truncated_softmax(
            temperature, tf.where(top_k > 0, top_k, ALL_WORDS), tf.where(top_p < 1, top_p, ALL_PROBABILITY)
        )
        block, _ = self._engine.sample(tf.repeat(ids[-1:], rows), states, uniform, self._mask, distribution)
        words = self.words.lookup(tf.cast(block.ids, tf.int64))
        return {self._format: self.tokenizer.decode(tf.RaggedTensor.from_tensor(words))}

    def _score(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The cross-entropy of each token of a text but the first: nats [tokens - 1]."""
        ids = self._ids(text)
        hidden, _ = self.model.read(ids[tf.newaxis, :-1], self.model.start(1))
        logits = self.model.output.logits(hidden[:, 0])
        return {"nats": tf.nn.sparse_softmax_cross_entropy_with_logits(ids[1:], logits)}

    def _ids(self, text: tf.Tensor) -> tf.Tensor:
        """The ids of a text or of tokens, int32 [tokens]."""
        tokens = self.tokenizer.encode(text[tf.newaxis]).values
        ids = tf.cast(self.ids.lookup(tokens), tf.int32)
        is_word = ids >= len(SPECIAL_WORDS)
        if self._format == "tokens":  # a line break
            is_word |= ids == EOS
        return tf.where(is_word, ids, UNKNOWN)
