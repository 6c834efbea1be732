import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.text.tokenizers.tokenizer import CharacterTokenizer

TOKENIZER = CharacterTokenizer()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi, Bo", "H i , <space> B o"),
        ("a\tb\r\nc", "a <tab> b <return> <newline> c"),
        ("e\u0301", "e <U+0301>"),
        ("é你👍", "é 你 👍"),
        ("\ufeff\u200d\x00\x7f", "<U+FEFF> <U+200D> <U+0000> <U+007F>"),
        ("\u00a0\u3000\u2028", "<U+00A0> <U+3000> <U+2028>"),
        ("\ud83d\ude00", "<U+D83D> <U+DE00>"),
        ("\u3164\uffff\U0010ffff", "<U+3164> <U+FFFF> <U+10FFFF>"),
        ("<eos>", "< e o s >"),
        ("", ""),
    ],
)
def test_encode(text: str, expected: str) -> None:
    assert TOKENIZER.encode(text) == expected.split()


def test_code_points_of_all_blocks() -> None:
    text = "".join(map(chr, [*range(0x3100), *range(0x3100, 0x110000, 29)]))
    tokens = TOKENIZER.encode(text)
    assert TOKENIZER.decode(tokens) == text
    assert len(set(tokens)) == len(tokens) == len(text)
    assert " ".join(tokens).split() == tokens
    assert " ".join(tokens).encode().decode().split() == tokens  # can be written


@given(st.lists(st.sampled_from(["<U+110000>", "<U+41>", "<U+0041>", "<unknown>", "a", "<space>", "<", ">"])))
def test_decode_any_tokens(tokens: list[str]) -> None:
    expected = {"<U+0041>": "A", "<space>": " "}
    assert TOKENIZER.decode(tokens) == "".join(expected.get(token, token) for token in tokens)
