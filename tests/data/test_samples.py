"""Utterances are paired within their conversations; a text that cleaning empties is refused."""

import logging
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.samples import SAMPLE_UTTERANCES, Tokenizers, iterate_samples, read_tokenized_utterances
from seq2seq_chat.text.tokenizers import Tokenizer
from seq2seq_chat.text.tokenizers.english import EnglishCharacterTokenizer, EnglishTokenizer

Write = Callable[..., Path]
ENGLISH = EnglishTokenizer()

REMOVED = {
    "Cyrillic": "Привет , как дела ? / Хорошо , спасибо !",
    "Chinese": "你好，你好吗？ / 我很好，谢谢！",
    "Hindi": "नमस्ते , आप कैसे हैं ? / मैं ठीक हूँ",
    "with a few numbers and names": "Встречаемся в 10 часов утра у большого театра / Хорошо , до встречи там , Ann",
}
KEPT = {
    "English": "“Don’t you — really?” she said… / 100 %!",
    "French": "Où êtes-vous ? / Là-bas, déjà garé",
    "no letters": "♪♪♪ / :-)",
}


def read(path: Path, tokenizer: Tokenizer = ENGLISH) -> list[list[str]]:
    return [utterance.source_tokens for utterance in read_tokenized_utterances(path, Tokenizers(tokenizer, tokenizer))]


@pytest.mark.parametrize("tokenizer", [EnglishTokenizer(), EnglishCharacterTokenizer()])
@pytest.mark.parametrize("text", REMOVED.values(), ids=list(REMOVED))
def test_a_corpus_whose_letters_are_removed_is_refused(corpus_file: Write, text: str, tokenizer: Tokenizer) -> None:
    message = r"The english.* tokenizer removes [\d.]+ % of the letters in .*corpus\.txt\. Use the unicode tokenizer"
    with pytest.raises(CorpusError, match=message):
        read(corpus_file(text), tokenizer)


@pytest.mark.parametrize("text", KEPT.values(), ids=list(KEPT))
def test_a_corpus_in_the_latin_alphabet_is_read(
    corpus_file: Write, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    read(corpus_file(text))
    assert not caplog.messages


def test_english_loses_letters_of_other_languages(corpus_file: Write, caplog: pytest.LogCaptureFixture) -> None:
    path = corpus_file("Die große Straße liegt dort drüben / Na schön")
    with caplog.at_level(logging.WARNING):
        read(path)
    (message,) = caplog.messages  # 2 of 36 letters: ü and ö become u and o, but ß is none of a to z
    assert message.startswith(f"the english tokenizer removes 5.6 % of the letters in {path}. Use the unicode tok")


def test_half_of_a_corpus_is_worth_a_warning(corpus_file: Write, caplog: pytest.LogCaptureFixture) -> None:
    path = corpus_file("hello / привет привет")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert read(path) == [["hello"]]
    (message,) = caplog.messages  # 5 of 17 letters are kept
    assert message.startswith(f"the english tokenizer removes 70.6 % of the letters in {path}. Use the unicode")


def test_the_first_utterances_decide(corpus_file: Write) -> None:
    """A corpus of any length is refused at once, and a few foreign utterances later are no reason."""
    foreign = ["привет / как дела"] * SAMPLE_UTTERANCES
    path = corpus_file(*["hello / you"] * SAMPLE_UTTERANCES, *foreign)
    assert len(read(path)) == 2 * SAMPLE_UTTERANCES
    with pytest.raises(CorpusError, match="The english tokenizer removes 100 %"):
        read(corpus_file(*foreign, "hello"))


@given(st.lists(st.integers(0, 7)))
def test_pairing_any_conversations(lengths: list[int]) -> None:
    utterances = [(c, (c, turn)) for c, length in enumerate(lengths) for turn in range(length)]
    sliding = list(iterate_samples(utterances, "sliding"))
    assert len(sliding) == sum(max(0, length - 1) for length in lengths)
    assert all(s == (t[0], t[1] - 1) for s, t in sliding)
    alternating = list(iterate_samples(utterances, "alternating"))
    assert alternating == [pair for pair in sliding if pair[0][1] % 2 == 0]
    assert sliding == sorted(sliding)


def test_samples_are_streamed() -> None:
    samples = iterate_samples(((0, number) for number in count()), "sliding")
    assert [next(samples) for _ in range(3)] == [(0, 1), (1, 2), (2, 3)]
