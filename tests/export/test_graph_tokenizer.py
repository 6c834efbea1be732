"""Tokens are the same inside a graph and outside, for every character there is and any text made of them."""

from __future__ import annotations

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.corpus.text import Level, clean, tokenize
from seq2seq_chat.corpus.text import detokenize as expected_text
from seq2seq_chat.exporting.tokens import Tokenizer, detokenize

CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
DIFFICULT = "aZ09.,!? \t\n\x00\u0301\u20dd\ufb01İıſK½…‼ß字😀\u200d\u2044ΣςÅ\u0130\u1e9e"
TEXTS = st.lists(st.text(st.characters(codec="utf-8") | st.sampled_from(DIFFICULT), max_size=20), max_size=6)


def tokens(texts: list[bytes], level: Level) -> list[list[str]]:
    found = Tokenizer(level)(tf.constant(texts, tf.string, [len(texts)]))
    return [[token.decode("ascii") for token in row] for row in found.to_list()]


@pytest.mark.slow
def test_every_character_alone_and_between_others() -> None:
    """Nothing, letters, a word of its own or a space: for all 1,112,064 characters of Unicode."""
    for pattern in ("{}", "a{}b"):
        texts = [pattern.format(chr(code)) for code in CODE_POINTS]
        graph = tf.strings.reduce_join(Tokenizer("word")(tf.constant(texts)), axis=1, separator=" ").numpy()
        wrong = [
            hex(code)
            for code, text, found in zip(CODE_POINTS, texts, graph, strict=True)
            if clean(text) != found.decode()
        ]
        assert not wrong


@pytest.mark.parametrize("level", ["word", "character"])
@settings(max_examples=200)
@given(texts=TEXTS)
def test_any_texts_together(level: Level, texts: list[str]) -> None:
    assert tokens([text.encode() for text in texts], level) == [tokenize(text, level) for text in texts]


@settings(max_examples=200)
@given(
    texts=st.lists(st.binary(max_size=12) | st.text("é€😀 ab", max_size=4).map(lambda t: t.encode()[:-1]), max_size=5)
)
def test_any_bytes(texts: list[bytes]) -> None:
    """What is not UTF-8 is read as ``chat`` reads it."""
    assert tokens(texts, "word") == [tokenize(text.decode("utf-8", errors="replace"), "word") for text in texts]


@pytest.mark.parametrize("level", ["word", "character"])
def test_tokens_become_text_again(level: Level) -> None:
    texts = ["wait . . . what ?", "", "a b", "x", "3 . 5 ok !"]
    rows = tf.ragged.constant([tokenize(text, level) for text in texts], dtype=tf.string)
    found = [text.decode() for text in detokenize(rows, level).numpy()]
    assert found == texts == [expected_text(tokenize(text, level), level) for text in texts]
