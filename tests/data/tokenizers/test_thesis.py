import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.text.tokenizers.english import ThesisTokenizer

TOKENIZER = ThesisTokenizer()
VALID = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?"
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=())), st.text("aZ0.,!? \n\t'é\x1c\x85\u00a0\u3000\x00\ud800")
)


def reference(text: str) -> tuple[list[str], int]:
    """The tokens and the number of words removed, one character at a time."""
    tokens, removed = [], 0
    for word in text.split():
        if all(character in VALID for character in word):
            tokens += "".join(f" {character} " if character in ".,!?" else character for character in word).split()
        else:
            removed += 1
    return tokens, removed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello,you!!", "Hello , you ! !"),
        ("Don't tell John's café , OK?", "tell , OK ?"),
        ("3.5% of 3.5", "of 3 . 5"),
        (" - ", ""),
        ("a\nb\u3000c\x1cd", "a b c d"),
        ("", ""),
    ],
)
def test_encode(text: str, expected: str) -> None:
    assert TOKENIZER.encode(text) == expected.split()


@given(st.lists(TEXTS, max_size=5))
def test_lines_and_removed_words(texts: list[str]) -> None:
    expected = [reference(text) for text in texts]
    assert [TOKENIZER.encode(text) for text in texts] == [tokens for tokens, _ in expected]
    assert TOKENIZER.encode_lines(texts) == [" ".join(tokens) for tokens, _ in expected]
    assert TOKENIZER.count_removed(texts) == sum(removed for _, removed in expected)


def test_decode() -> None:
    assert TOKENIZER.decode(["Hello", ",", "Bo", "!", "!", "3", ".", "5"]) == "Hello, Bo!! 3. 5"
    assert TOKENIZER.decode([]) == ""
