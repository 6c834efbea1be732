from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.data.samples import iterate_samples, read_tokenized_utterances
from seq2seq_chat.text.tokenizers import Tokenizers
from seq2seq_chat.text.tokenizers.english import EnglishTokenizer

Write = Callable[..., Path]

CONVERSATIONS = [(0, "a"), (0, "b"), (0, "c"), (1, "d"), (2, "e"), (2, "f"), (2, "g"), (2, "h")]


def test_sliding() -> None:
    assert list(iterate_samples(CONVERSATIONS, "sliding")) == [
        ("a", "b"),
        ("b", "c"),
        ("e", "f"),
        ("f", "g"),
        ("g", "h"),
    ]


def test_alternating() -> None:
    assert list(iterate_samples(CONVERSATIONS, "alternating")) == [
        ("a", "b"),
        ("e", "f"),
        ("g", "h"),
    ]


@given(st.lists(st.integers(0, 7)))
def test_pairing_any_conversations(lengths: list[int]) -> None:
    utterances = [(c, (c, turn)) for c, length in enumerate(lengths) for turn in range(length)]
    sliding = list(iterate_samples(utterances, "sliding"))
    assert len(sliding) == sum(max(0, length - 1) for length in lengths)
    assert all(s == (t[0], t[1] - 1) for s, t in sliding)
    alternating = list(iterate_samples(utterances, "alternating"))
    assert alternating == [pair for pair in sliding if pair[0][1] % 2 == 0]


def test_unknown_pairing() -> None:
    with pytest.raises(ValueError, match="'sliding' or 'alternating'"):
        list(iterate_samples([], "triples"))  # type: ignore[arg-type]


def test_utterances_without_tokens_are_dropped(corpus_file: Write) -> None:
    path = corpus_file("Hi! / *** / Bo? / Yes", "--", "no / 你好")
    tokenizer = EnglishTokenizer()
    utterances = read_tokenized_utterances(path, Tokenizers(tokenizer, tokenizer))
    tokens = [(utterance.conversation, utterance.source_tokens) for utterance in utterances]
    assert [words for _, words in tokens] == [["hi", "!"], ["bo", "?"], ["yes"], ["no"]]
    assert list(iterate_samples(tokens, "sliding")) == [
        (["hi", "!"], ["bo", "?"]),
        (["bo", "?"], ["yes"]),
    ]
    assert list(iterate_samples(tokens, "alternating")) == [(["hi", "!"], ["bo", "?"])]


def test_samples_are_streamed() -> None:
    def endless():
        number = 0
        while True:
            yield 0, number
            number += 1

    samples = iterate_samples(endless(), "sliding")
    assert [next(samples) for _ in range(3)] == [(0, 1), (1, 2), (2, 3)]
