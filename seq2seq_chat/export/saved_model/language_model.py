"""A graph that continues and scores texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding.sequential import truncated_softmax
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.export.saved_model.graph_tokenizer import TOKENS, GraphTokenizer, ids_table, words_table
from seq2seq_chat.search.engine import ALL_PROBABILITY, ALL_WORDS
from seq2seq_chat.text.codec import TextCodec
from seq2seq_chat.text.vocabulary import EOS, SPECIAL_WORDS, UNKNOWN, VOCABULARY_FILE


def running_text_format(codec: TextCodec) -> str:
    """What a SavedModel of a language model reads and writes: "text", or "tokens" separated by spaces."""
    return "text" if codec.tokenizer.keeps_line_breaks else "tokens"


class TextModel(tf.Module):
    """The contents of a SavedModel: a language model that continues a string, and scores one.

    Args:
        engine: Of the trained model.
        codec: That it was trained with.
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
