"""Subwords: what a text is divided into, training, and the file of a tokenizer."""

import base64
import hashlib
import json
import logging
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.text.tokenizers import SubwordModel, TokenizerError, TokenizerSettings, create_tokenizer
from seq2seq_chat.text.tokenizers import subword_training as training
from seq2seq_chat.text.tokenizers import tokenizer as token_cache
from seq2seq_chat.text.tokenizers.subword import SubwordTokenizer

MODELS: tuple[SubwordModel, ...] = ("unigram", "bpe")
TEXTS = [
    f"{subject} {verb} {adverb} {verb}ing , {thing}{number} !"
    for subject in ("She", "he", "They")
    for verb in ("work", "talk", "wait", "call", "laugh")
    for adverb in ("hardly", "softly", "loudly", "quietly")
    for thing in ("café", "door", "<eos>")
    for number in (3, 17)
]
SIZE = 310


@pytest.fixture(scope="module", params=MODELS)
def tokenizer(request: pytest.FixtureRequest) -> SubwordTokenizer:
    return SubwordTokenizer.train(TEXTS, SIZE, request.param)


def test_subwords(tokenizer: SubwordTokenizer) -> None:
    word = tokenizer.encode("talk")
    assert "".join(word) == "▁talk" and len(word) < 4
    assert tokenizer.encode("talk  talk ") == [*word, "▁", *word, "▁"]
    assert tokenizer.encode("") == [] and tokenizer.encode(" ") == ["▁", "▁"]
    assert len(tokenizer.encode("They work softly")) < 0.8 * len("They work softly")
    assert tokenizer.encode("工") == ["▁", "<0xE5>", "<0xB7>", "<0xA5>"]
    assert tokenizer.encode("\n▁") == ["▁", "<0x0A>", "<0xE2>", "<0x96>", "<0x81>"]
    assert tokenizer.encode("\ud83d") == ["▁", "<0xED>", "<0xA0>", "<0xBD>"]
    assert tokenizer.encode("<eos>")[:2] == ["▁", "<0x3C>"]  # frequent in the texts, but no token


def test_tokens_fill_the_vocabulary_in_the_order_of_their_frequency(tokenizer: SubwordTokenizer) -> None:
    assert len(tokenizer.tokens) + 4 == SIZE == len(set(tokenizer.tokens)) + 4
    counts = Counter(token for text in TEXTS for token in tokenizer.encode(text))
    frequencies = [counts[token] for token in tokenizer.tokens]
    assert frequencies == sorted(frequencies, reverse=True) and frequencies[0] > frequencies[-1] == 0
    assert set(tokenizer.tokens) >= {f"<0x{byte:02X}>" for byte in range(256)}
    assert not any("<" in token and not token.startswith("<0x") for token in tokenizer.tokens)


@given(
    st.one_of(st.text(st.characters(exclude_categories=())), st.text("aé ▁<▅\n\t\u200c\u3000\ud83d\ude00\x00\ufffd"))
)
def test_any_text(tokenizer: SubwordTokenizer, text: str) -> None:
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text
    assert set(tokens) <= set(tokenizer.tokens)


@given(st.data())
def test_decode_what_a_model_may_generate(tokenizer: SubwordTokenizer, data: st.DataObject) -> None:
    words = st.sampled_from([*tokenizer.tokens, "<unknown>"])
    assert isinstance(tokenizer.decode(data.draw(st.lists(words))), str)


def test_decode_invalid_bytes(tokenizer: SubwordTokenizer) -> None:
    assert tokenizer.decode(["▁a", "<0xE2>", "<0x82>", "▁b"]) == "a\ufffd b"
    assert tokenizer.decode(["a", "▁b"]) == "a b"
    assert tokenizer.decode(["▁", "<0xE2>", "<0x96>", "<0x81>"]) == "▁"


@pytest.mark.parametrize("model", MODELS)
def test_training_is_reproducible(model: SubwordModel) -> None:
    """In another process, with another hash seed."""
    program = (
        "import hashlib, sys; from seq2seq_chat.text.tokenizers.subword import SubwordTokenizer\n"
        f"content = SubwordTokenizer.train({TEXTS!r}, {SIZE}, {model!r}).file_content\n"
        "print(hashlib.sha256(content).hexdigest(), 'tensorflow' in sys.modules)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in "12"
    }
    assert len(outputs) == 1


def test_sentencepiece_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    logging.disable()  # our own note, which the command line prints
    SubwordTokenizer.train(["a b\tc", "\u2585"], 300, "unigram")
    logging.disable(logging.NOTSET)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "texts", [["a"], ["hello world"] * 3, ["中文你好"], ["x" * 5000], TEXTS[:3], ["\n \t"] * 2 + ["0"]]
)
def test_a_corpus_that_does_not_fill_the_vocabulary(texts: list[str], model: SubwordModel) -> None:
    tokenizer = SubwordTokenizer.train(iter(texts), 5000, model)
    assert tokenizer.tokens is not None and 256 < len(tokenizer.tokens) < 2000
    assert [tokenizer.decode(tokenizer.encode(text)) for text in texts] == texts


@pytest.mark.parametrize("model", MODELS)
def test_the_smallest_vocabulary(model: SubwordModel) -> None:
    texts = ["ab ba"] * 3
    assert len(SubwordTokenizer.train(texts, 263, model).tokens) == 259  # bytes, a, b, ▁
    with pytest.raises(TokenizerError, match=r"262 is too small.* 263 .* Raise the vocabulary size"):
        SubwordTokenizer.train(texts, 262, model)


@pytest.mark.parametrize("texts", [[], [""], ["  ", "\n\t"], ["<\u200b\ud800"]])
def test_no_text(texts: list[str]) -> None:
    with pytest.raises(TokenizerError, match="no text"):
        SubwordTokenizer.train(texts, 1000, "unigram")


def test_rare_characters_have_no_tokens() -> None:
    tokenizer = SubwordTokenizer.train(["abc"] * 5000 + ["工"], 300, "unigram")
    assert "工" not in tokenizer.tokens and "c" in tokenizer.tokens


def test_large_corpora_are_sampled_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{number} x" for number in range(100)]
    monkeypatch.setattr(training, "_MAX_TEXTS", 30)
    assert training.sample_texts(iter(texts[:30])) == texts[:30]
    assert training.sample_texts(iter(texts)) == texts[::4]
    monkeypatch.setattr(training, "_MAX_TEXTS", 10**6)
    monkeypatch.setattr(training, "_MAX_CHARACTERS", sum(map(len, texts)))
    assert training.sample_texts(iter(texts)) == texts
    monkeypatch.setattr(training, "_MAX_CHARACTERS", 250)
    assert training.sample_texts(iter(texts)) == texts[::2]
    assert training.sample_texts(["y" * 1000]) == ["y" * 1000]
    monkeypatch.setattr(training, "_MAX_WORD_CHARACTERS", 100)
    assert training.count_words(texts) == Counter(word for text in texts[::2] for word in text.split())


def test_counts_are_reduced_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counter({" ab": 10, "c": 18, " def": 1})
    assert training.scale_counts(counts) == counts
    monkeypatch.setattr(training, "_MAX_TRAINING_CHARACTERS", 13)  # of 52
    assert training.scale_counts(counts) == {" ab": 2, "c": 4}
    monkeypatch.setattr(training, "_MAX_TRAINING_CHARACTERS", 2000)  # of 6000
    assert len(SubwordTokenizer.train(TEXTS, SIZE, "bpe").tokens) == SIZE - 4


@pytest.mark.parametrize("longest", [1, 3, 500])
def test_segments_of_words(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of letters as often as they occur, with a space only where a word starts, in pieces of limited length."""
    monkeypatch.setattr(training, "_MAX_SEGMENT", longest)
    texts = ["".join(random.Random(seed).choices("ab <\t", k=seed)) for seed in range(40)]
    expected: Counter[str] = Counter()
    for word in (word for text in texts for word in text.split(" ")):
        for run in re.finditer("[ab]+", word):
            segment = run[0] if run.start() else f" {run[0]}"
            expected.update(segment[start : start + longest] for start in range(0, len(segment), longest))
    assert training._count_segments(training.count_words(texts)) == expected


def test_records_of_training() -> None:
    """Every segment occurs as often as it was counted; a frequent word is once before another, once at the end."""
    for seed in range(40):
        rng = random.Random(seed)
        words = {rng.choice(["", " "]) + "".join(rng.choices("abc", k=2)): rng.randint(1, 4) for _ in range(seed % 9)}
        seen: Counter[str] = Counter()
        last: Counter[str] = Counter()
        for record in training._records(words):
            text, _, count = record.partition("\t")
            pieces = re.findall(r" ?[^ ]+", text)
            seen.update(pieces * int(count))
            last.update(pieces[1:])
        assert seen == words
        assert last == {word: 1 for word, count in words.items() if count > 1 and word.startswith(" ")}


def test_the_cache_is_bounded(tokenizer: SubwordTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "_MAX_WORDS", 10)
    texts = [f"w{number} " + "z" * number for number in range(50)]
    assert tokenizer.encode_lines(texts) == [" ".join(tokenizer.encode(text)) for text in texts]
    assert len(tokenizer._cache) <= 10
    tokenizer._cache.clear()
    tokenizer.encode_lines(["of five words none is", "forgotten"])
    assert len(tokenizer._cache) == 6


@pytest.fixture(scope="module")
def content() -> bytes:
    return SubwordTokenizer.train(["hello you", "hello there"], 300, "bpe").file_content


def test_loading_and_the_format_of_the_file(content: bytes) -> None:
    tokenizer = create_tokenizer(TokenizerSettings("subword"), content, "tokenizer.json")
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
def test_another_file(content: bytes, change: Callable[[dict[str, Any]], object], message: str) -> None:
    value = json.loads(content)
    change(value)
    with pytest.raises(TokenizerError, match=rf"^the\.json .*{message}.*\. [A-Z].*\.$"):
        create_tokenizer(TokenizerSettings("subword"), json.dumps(value).encode(), "the.json")


@pytest.mark.parametrize("other", [b"", b"\x1f\x8b\x08", b"<pad>\n<go>\n", b"\xff\xfe", b"[" * 10**5])
def test_not_json(other: bytes) -> None:
    with pytest.raises(TokenizerError, match=r"^the\.json .* not valid JSON\. [A-Z].*\.$"):
        create_tokenizer(TokenizerSettings("subword"), other, "the.json")


def test_damage_is_found(content: bytes) -> None:
    numbers = random.Random(1)
    for _ in range(300):
        position, bit = numbers.randrange(len(content)), 1 << numbers.randrange(8)
        damaged = bytearray(content)
        damaged[position] ^= bit
        for candidate in (bytes(damaged), content[:position]):
            try:
                tokenizer = create_tokenizer(TokenizerSettings("subword"), candidate, "the.json")
            except TokenizerError as error:
                assert str(error).startswith("the.json ")
            else:  # white space between values
                assert tokenizer.file_content == content
