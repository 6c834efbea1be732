import base64
import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from seq2seq_chat.text.tokenizers import TokenizerError, TokenizerSettings, create_tokenizer
from seq2seq_chat.text.tokenizers.subword import SubwordTokenizer

SETTINGS = TokenizerSettings("subword")
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def content() -> bytes:
    return SubwordTokenizer.train(["hello you", "hello there"], 300, "bpe").file_content


def test_loading_and_the_format_of_the_file(content: bytes) -> None:
    tokenizer = create_tokenizer(SETTINGS, content, "tokenizer.json")
    assert tokenizer.file_content == content
    assert tokenizer.encode("hello") == ["▁hello"]
    assert tokenizer.tokens is not None and tokenizer.tokens[0] == "▁hello"
    value = json.loads(content)
    assert list(value) == ["format", "version", "tokenizer", "sha256", "model", "tokens"]
    assert (value["format"], value["version"], value["tokenizer"]) == ("seq2seq-chat tokenizer", 1, "subword")


def with_checksum(model: bytes) -> dict[str, str]:
    return {"model": base64.b64encode(model).decode(), "sha256": hashlib.sha256(model).hexdigest()}


def with_invalid_piece(model: str) -> dict[str, str]:
    """A model with a token that is not UTF-8."""
    return with_checksum(base64.b64decode(model).replace("▁hello".encode(), b"\x82\x82\x82hello"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: value.update(tokenizer="word"), "a file of the tokenizer 'word', not of 'subword'"),
        (lambda value: value.update(version=2), "format version 2"),
        (lambda value: value.update(version=None), "format version None"),
        (lambda value: value.update(format="vocabulary"), "not a tokenizer file"),
        (lambda value: value.pop("format"), "not a tokenizer file"),
        (lambda value: value.pop("sha256"), "damaged"),
        (lambda value: value.update(extra=1), "damaged"),
        (lambda value: value.update(model=value["model"][:-8]), "damaged"),
        (lambda value: value.update(model="é" + value["model"][1:]), "damaged"),
        (lambda value: value.update(model=7), "damaged"),
        (lambda value: value.update(tokens=None), "damaged"),
        (lambda value: value.update(tokens=[1, *value["tokens"]]), "damaged"),
        (lambda value: value["tokens"].pop(), "damaged"),
        (lambda value: value["tokens"].append("<unk>"), "damaged"),
        (lambda value: value["tokens"].append(value["tokens"][0]), "damaged"),
        (lambda value: value.update(with_checksum(b"")), "no valid SentencePiece model"),
        (lambda value: value.update(with_checksum(b"model")), "no valid SentencePiece model"),
        (lambda value: value.update(with_invalid_piece(value["model"])), "no valid SentencePiece model"),
    ],
)
def test_another_file(content: bytes, change: Change, message: str) -> None:
    value = json.loads(content)
    change(value)
    with pytest.raises(TokenizerError, match=rf"^the\.json .*{message}.*\. [A-Z].*\.$"):
        create_tokenizer(SETTINGS, json.dumps(value).encode(), "the.json")


@pytest.mark.parametrize("other", [b"", b"\x1f\x8b\x08", b"<pad>\n<go>\n", b"\xff\xfe", b"[" * 10**5])
def test_not_json(other: bytes) -> None:
    with pytest.raises(TokenizerError, match=r"^the\.json .* not valid JSON\. [A-Z].*\.$"):
        create_tokenizer(SETTINGS, other, "the.json")


def test_damage_is_found(content: bytes) -> None:
    numbers = random.Random(1)
    for _ in range(300):
        position, bit = numbers.randrange(len(content)), 1 << numbers.randrange(8)
        damaged = bytearray(content)
        damaged[position] ^= bit
        for candidate in (bytes(damaged), content[:position]):
            try:
                tokenizer = create_tokenizer(SETTINGS, candidate, "the.json")
            except TokenizerError as error:
                assert str(error).startswith("the.json ")
            else:  # white space between values
                assert tokenizer.file_content == content
