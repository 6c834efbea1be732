from __future__ import annotations

import pickle
import subprocess
import sys
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.text.tokenizers import (
    Tokenizer,
    TokenizerName,
    TokenizerSettings,
    create_tokenizer,
    train_tokenizer,
)
from seq2seq_chat.text.tokenizers.english import clean

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.text("aé Σ.,'▁<>工กक\n\t\u3000\x00\u0301\u200d👍\ud83d"),
    st.sampled_from(["<pad>", "<eos>", "<unknown>", "<turn> x", "a  b ", ""]),
)
SETTINGS = [
    *(TokenizerSettings(name) for name in get_args(TokenizerName)),
    TokenizerSettings("unicode", lowercase=True),
]


@pytest.fixture(scope="module", params=SETTINGS, ids=lambda settings: "_".join(map(str, settings[:2])))
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param.name == "subword":
        return train_tokenizer(request.param, ["hello <pad> <eos> you é工", "hello <turn>"], 300)
    return create_tokenizer(request.param)


@given(st.lists(TEXTS, max_size=4))
def test_all_tokenizers(tokenizer: Tokenizer, texts: list[str]) -> None:
    encoded = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_lines(texts) == [" ".join(tokens) for tokens in encoded]
    for text, tokens in zip(texts, encoded, strict=True):
        assert all(token.split() == [token] and token.encode().decode() == token for token in tokens)
        if tokenizer.lossless:
            assert tokenizer.decode(tokens) == text
        if tokenizer.cleans:
            assert tokenizer.encode(" ".join(tokens)) == tokens
        if tokenizer.name != "whitespace":
            assert not {"<pad>", "<go>", "<eos>", "<unknown>", "<turn>"} & set(tokens)
    assert 0 <= tokenizer.count_removed(texts) <= sum(map(len, texts))


def test_pickle(tokenizer: Tokenizer) -> None:
    text = "Hello <pad> É工 you's 3.5\n"
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert type(copy) is type(tokenizer)
    assert (copy.encode(text), copy.file_content) == (tokenizer.encode(text), tokenizer.file_content)


def test_names() -> None:
    for settings in SETTINGS:
        if settings.name != "subword":
            tokenizer = create_tokenizer(settings)
            assert (tokenizer.name, tokenizer.lowercase) == (settings.name, settings.lowercase)


def test_libraries_are_imported_where_needed() -> None:
    program = (
        "import sys; import seq2seq_chat.text.tokenizers as t\n"
        "t.create_tokenizer(t.TokenizerSettings('unicode')).encode('only ASCII')\n"
        "print([name for name in ('regex', 'sentencepiece', 'tensorflow') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout == b"[]\n"


def test_english_characters() -> None:
    tokenizer = create_tokenizer(TokenizerSettings("english_character"))
    assert tokenizer.encode("Hi Bo!") == [*"hi", "<space>", *"bo", "<space>", "!"]
    assert tokenizer.encode("--") == []


@given(st.text())
def test_decoded_english_characters_are_the_cleaned_text(text: str) -> None:
    tokenizer = create_tokenizer(TokenizerSettings("english_character"))
    assert tokenizer.decode(tokenizer.encode(text)) == clean(text)


def test_unknown_tokenizer() -> None:
    with pytest.raises(ValueError, match="sentence"):
        create_tokenizer(TokenizerSettings("sentence"))  # type: ignore[arg-type]
