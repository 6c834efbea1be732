from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.text.tokenizers.tokenizer import WhitespaceTokenizer

TOKENIZER = WhitespaceTokenizer()


def test_tokens_as_they_stand() -> None:
    assert TOKENIZER.encode(" do n't\u3000<unk> Été\n.") == ["do", "n't", "<unk>", "Été", "."]
    assert TOKENIZER.encode("a\ud800b \ud83d\ude00") == ["a\ufffdb", "\ufffd\ufffd"]
    assert TOKENIZER.decode(["do", "n't", "."]) == "do n't ."


@given(st.text(st.characters(exclude_categories=())))
def test_decode_is_the_inverse_of_encode(text: str) -> None:
    tokens = TOKENIZER.encode(text)
    assert TOKENIZER.encode(TOKENIZER.decode(tokens)) == tokens
    expected = "".join("\ufffd" if 0xD800 <= ord(character) < 0xE000 else character for character in text)
    assert TOKENIZER.decode(tokens) == " ".join(expected.split())
