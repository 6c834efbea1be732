import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.text.tokenizers.english import EnglishTokenizer, clean, clean_block, clean_lines, words_with_marks


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


def reference_clean(text: str) -> str:
    """The definition: decomposed, without marks, lower case, words and punctuation marks."""
    decomposed = unicodedata.normalize("NFKD", text)
    kept = "".join(c for c in decomposed if not unicodedata.category(c).startswith("M"))
    return " ".join(re.findall(r"[a-z0-9]+|[.,!?]", kept.lower()))


def test_clean_every_character() -> None:
    for code in range(0x110000):
        text = chr(code)
        if code < 0x3000 or code % 101 == 0 or unicodedata.decomposition(text) or unicodedata.combining(text):
            assert clean(f"a{text}B") == reference_clean(f"a{text}B"), hex(code)


@given(st.lists(st.one_of(st.text(), st.text("a .,\n\u0130\u0301\u0323\u212b\uac01\ud800")), max_size=5))
def test_clean_lines_and_blocks(texts: list[str]) -> None:
    assert clean_lines(texts) == [reference_clean(text) for text in texts] == [clean(text) for text in texts]
    lines = [text.replace("\n", " ").encode(errors="ignore") for text in texts] or [b""]
    assert clean_block(b"\n".join(lines)) == b"\n".join(reference_clean(line.decode()).encode() for line in lines)


def test_words_that_lose_marks_are_whole_and_named_once() -> None:
    texts = ["I don't, and don't know", "It’s naïve at a cafe\u0301 😂❤", "we're Zoë", "hers' 😂 ☺"]
    words = {"apostrophes": ["don't", "It’s", "we're"], "accents": ["naïve", "cafe\u0301", "Zoë"], "emoji": [*"😂❤☺"]}
    for count in (1, 2, 9):
        assert words_with_marks(texts, count) == {name: some[:count] for name, some in words.items()}


def test_words() -> None:
    tokenizer = EnglishTokenizer()
    assert tokenizer.encode("Hi, Bo!") == ["hi", ",", "bo", "!"]
    assert tokenizer.encode("?¿ ") == ["?"]
    assert tokenizer.encode("--") == []
