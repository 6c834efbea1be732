"""The tokenizers give the same tokens inside and outside a graph, for every character and any text."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.data.tokenizers import Level, get_tokenizer
from seq2seq_chat.data.tokenizers.english import clean
from seq2seq_chat.export.graph_tokenizer import GraphTokenizer

CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
DIFFICULT = "aZ09.,!? \t\n\x00\u0301\u20dd\ufb01İıſK½…‼ß字😀\u200d\u2044ΣςÅ\u0130\u1e9e"
TEXTS = st.lists(st.text(st.characters(codec="utf-8") | st.sampled_from(DIFFICULT), max_size=20), max_size=6)


Encode = Callable[[list[bytes], Level], tf.RaggedTensor]


@pytest.fixture(scope="module")
def encode() -> Encode:
    """``GraphTokenizer.encode``, traced once: much faster than eager execution for many small inputs."""
    signature = [tf.TensorSpec([None], tf.string)]
    graphs = {level: tf.function(GraphTokenizer(level).encode, signature) for level in get_args(Level)}
    return lambda texts, level: graphs[level](tf.constant(texts, tf.string, [len(texts)]))


def as_lists(tokens: tf.RaggedTensor) -> list[list[str]]:
    return [[token.decode("ascii") for token in row] for row in tokens.to_list()]


@pytest.mark.slow
def test_every_character_alone_and_between_letters(encode: Encode) -> None:
    """All 1,112,064 characters of Unicode."""
    for pattern in ("{}", "a{}b"):
        texts = [pattern.format(chr(code)) for code in CODE_POINTS]
        cleaned = tf.strings.reduce_join(
            encode([text.encode() for text in texts], "word"), axis=1, separator=" "
        ).numpy()
        wrong = [
            hex(code)
            for code, text, result in zip(CODE_POINTS, texts, cleaned, strict=True)
            if clean(text) != result.decode()
        ]
        assert not wrong


@pytest.mark.parametrize("level", ["word", "character"])
@settings(max_examples=200, deadline=None)
@given(texts=TEXTS)
def test_any_texts(encode: Encode, level: Level, texts: list[str]) -> None:
    tokens = as_lists(encode([text.encode() for text in texts], level))
    assert tokens == [get_tokenizer(level).encode(text) for text in texts]


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(st.binary(max_size=12) | st.text("é€😀 ab", max_size=4).map(lambda t: t.encode()[:-1]), max_size=5)
)
def test_invalid_utf8_is_read_as_by_chat(encode: Encode, texts: list[bytes]) -> None:
    decoded = [text.decode("utf-8", errors="replace") for text in texts]
    assert as_lists(encode(texts, "word")) == [get_tokenizer("word").encode(text) for text in decoded]


@pytest.mark.parametrize("level", ["word", "character"])
def test_decode(level: Level) -> None:
    texts = ["wait . . . what ?", "", "a b", "x", "3 . 5 ok !"]
    tokens = tf.ragged.constant([get_tokenizer(level).encode(text) for text in texts], dtype=tf.string)
    assert [text.decode() for text in GraphTokenizer(level).decode(tokens).numpy()] == texts
