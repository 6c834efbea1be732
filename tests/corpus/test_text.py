from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.corpus import clean, detokenize, tokenize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Tae Gong Sil was the 'big sun', and you're 'little sun'.",
            "tae gong sil was the big sun , and you re little sun .",
        ),
        ("café", "cafe"),
        ("cafe\u0301", "cafe"),
        ("ÀÉÎÕÜ ñ Ç", "aeiou n c"),
        ("İstanbul", "istanbul"),
        ("\u212a", "k"),  # the Kelvin sign
        ("wait…what?!", "wait . . . what ? !"),
        ("\ufb01ne １２", "fine 12"),
        ("it\u2019s", "it s"),
        ("straße", "stra e"),
        ("a\u20ddb\ufe0fc", "abc"),  # marks of combining class 0
        ("a\u2028b\x00c\u00a0d\te\r\n", "a b c d e"),
        ("3.5%", "3 . 5"),
        ("<eos> __eou__", "eos eou"),
        ("你好", ""),
        (" - ", ""),
        ("", ""),
    ],
)
def test_clean(text: str, expected: str) -> None:
    assert clean(text) == expected


@given(st.text())
def test_clean_gives_separated_words_and_is_idempotent(text: str) -> None:
    cleaned = clean(text)
    assert re.fullmatch(r"(([a-z0-9]+|[.,!?])( ([a-z0-9]+|[.,!?]))*)?", cleaned)
    assert clean(cleaned) == cleaned


@given(st.text(st.characters(max_codepoint=127)))
def test_clean_of_ascii_keeps_all_letters_and_marks_in_order(text: str) -> None:
    kept = [c for c in text.lower() if c in "abcdefghijklmnopqrstuvwxyz0123456789.,!?"]
    assert clean(text).replace(" ", "") == "".join(kept)


def test_tokenize() -> None:
    assert tokenize("Hi, Bo!", "word") == ["hi", ",", "bo", "!"]
    assert tokenize("Hi Bo!", "character") == [*"hi", "<space>", *"bo", "<space>", "!"]
    assert tokenize("?¿ ", "word") == ["?"]
    assert tokenize("--", "word") == tokenize("--", "character") == []


@given(st.text(), st.sampled_from(["word", "character"]))
def test_detokenize_is_the_inverse(text: str, level: str) -> None:
    assert detokenize(tokenize(text, level), level) == clean(text)


def test_unknown_level() -> None:
    with pytest.raises(ValueError, match="'word' or 'character'"):
        tokenize("a", "sentence")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'word' or 'character'"):
        detokenize(["a"], "sentence")  # type: ignore[arg-type]
