"""The tokenizers give the same tokens and texts inside and outside a graph, for every character and any text."""

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.export.saved_model.graph_tokenizer import GRAPH_TOKENIZERS, TOKENS, GraphTokenizer
from seq2seq_chat.text.codec import TextCodec
from seq2seq_chat.text.tokenizers import Tokenizer, TokenizerSettings, create_tokenizer
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary

CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
DIFFICULT = "aZ09.,!? \t\n\r\x00\x1c\x85\xa0\u3000\u0301\u20dd\ufb01İıſK½…‼ß字😀\u200d\u2044ΣςÅ\u1e9e\ufeff\ufdd0\uffff"
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from(DIFFICULT), max_size=20).map(str.encode)
CUT_TEXTS = st.text("é€😀 ab", max_size=4).map(lambda text: text.encode()[:-1])
BYTES = TEXTS | CUT_TEXTS | st.binary(max_size=12)
TRAITS = {  # what decode tells apart
    "english": ["a", "b1", ".", ",", "!", "?", "..", "a.", "<unknown>"],
    "thesis": ["a", "B1", ".", ",", "!", "?", "..", "a.", "<unknown>"],
    "english_character": ["a", "1", "<space>", ".", "<unknown>"],
    "whitespace": ["a", "Où?", ".", "<unknown>", "\ufeff"],
    "character": ["a", "<space>", "<tab>", "<newline>", "<return>", "<U+0301>", "<U+D800>", "<", "é", "<unknown>"],
    TOKENS: ["a", "▁b", "<0x0A>", "<unknown>"],
}


NIGHTLY = [
    pytest.param(name, marks=pytest.mark.nightly) for name in GRAPH_TOKENIZERS if name not in ("english", "character")
]
Encode = Callable[[str, list[bytes]], list[list[str]]]


def python_tokenizer(name: Any) -> Tokenizer:
    return create_tokenizer(TokenizerSettings(name))


@pytest.fixture(scope="module")
def encode() -> Encode:
    """``GraphTokenizer.encode``, traced once: much faster than eager execution for many small inputs."""
    signature = [tf.TensorSpec([None], tf.string)]
    graphs = {name: tf.function(GraphTokenizer(name).encode, signature) for name in GRAPH_TOKENIZERS}

    def encode(name: str, texts: list[bytes]) -> list[list[str]]:
        tokens = graphs[name](tf.constant(texts, tf.string, [len(texts)]))
        return [[token.decode() for token in row] for row in tokens.to_list()]

    return encode


@pytest.mark.slow(minutes=1)
@pytest.mark.parametrize("name", ["english", "character", *NIGHTLY])
def test_every_character_alone_and_between_letters(name: str) -> None:
    """All 1,112,064 characters of Unicode."""
    graph, tokenizer = GraphTokenizer(name), python_tokenizer(name)
    for pattern in ("{}", "a{}b", "{}."):
        texts = [pattern.format(chr(code)) for code in CODE_POINTS]
        tokens = graph.encode(tf.constant(texts))
        lines = [" ".join(tokenizer.encode(text)) for text in texts]
        joined = tf.strings.reduce_join(tokens, axis=1, separator=" ").numpy()
        decoded = graph.decode(tokens).numpy()
        wrong = [
            hex(code)
            for code, line, result, text in zip(CODE_POINTS, lines, joined, decoded, strict=True)
            if (line, tokenizer.decode(line.split())) != (result.decode(), text.decode())
        ]
        assert not wrong


@pytest.mark.parametrize("name", GRAPH_TOKENIZERS)
@settings(max_examples=150, deadline=None)
@given(texts=st.lists(BYTES, max_size=6))
def test_any_bytes_are_read_as_by_chat(encode: Encode, name: str, texts: list[bytes]) -> None:
    decoded = [text.decode("utf-8", errors="replace") for text in texts]
    assert encode(name, texts) == [python_tokenizer(name).encode(text) for text in decoded]


@pytest.mark.parametrize("name", [*GRAPH_TOKENIZERS, TOKENS])
def test_decode(name: str) -> None:
    """All rows of up to three tokens that a reply can have: words of a vocabulary and <unknown>."""
    tokens = TRAITS[name]
    rows = [[], *([one] for one in tokens), *([one, two] for one in tokens for two in tokens)]
    rows += [[one, two, three] for one in tokens for two in tokens for three in tokens]
    texts = GraphTokenizer(name).decode(tf.ragged.constant(rows, dtype=tf.string, ragged_rank=1)).numpy()
    if name == TOKENS:
        assert [text.decode() for text in texts] == [" ".join(row) for row in rows]
    else:
        codec = TextCodec(python_tokenizer(name), Vocabulary(SPECIAL_WORDS))
        assert [text.decode() for text in texts] == [codec.text(row) for row in rows]
