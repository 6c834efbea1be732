from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.data.tokenizers import get_tokenizer
from seq2seq_chat.data.tokenizers.english import clean


def test_characters() -> None:
    tokenizer = get_tokenizer("character")
    assert tokenizer.encode("Hi Bo!") == [*"hi", "<space>", *"bo", "<space>", "!"]
    assert tokenizer.encode("--") == []


@given(st.text(), st.sampled_from(["word", "character"]))
def test_decode_is_the_inverse_of_encode(text: str, name: str) -> None:
    tokenizer = get_tokenizer(name)
    assert tokenizer.name == name
    assert tokenizer.decode(tokenizer.encode(text)) == clean(text)


def test_unknown_tokenizer() -> None:
    with pytest.raises(ValueError, match="'word' or 'character'"):
        get_tokenizer("sentence")
