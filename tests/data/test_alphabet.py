"""A text that cleaning empties is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.data.alphabet import SAMPLE_UTTERANCES
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.samples import read_tokens
from seq2seq_chat.data.tokenizers import get_tokenizer

Write = Callable[..., Path]

REMOVED = {
    "Cyrillic": "Привет , как дела ? / Хорошо , спасибо !",
    "Chinese": "你好，你好吗？ / 我很好，谢谢！",
    "Hindi": "नमस्ते , आप कैसे हैं ? / मैं ठीक हूँ",
    "with a few numbers and names": "Встречаемся в 10 часов утра у большого театра / Хорошо , до встречи там , Ann",
}
KEPT = {
    "English": "“Don’t you — really?” she said… / 100 %!",
    "Vietnamese": "Chào anh, đi đâu đấy? / Tôi đi chợ",
    "Polish": "Cześć, źdźbło żółte / Łódź",
    "no letters": "♪♪♪ / :-)",
}


@pytest.mark.parametrize("level", ["word", "character"])
@pytest.mark.parametrize("text", REMOVED.values(), ids=list(REMOVED))
def test_a_corpus_whose_letters_are_removed_is_refused(corpus_file: Write, text: str, level: str) -> None:
    path = corpus_file(text)
    with pytest.raises(
        CorpusError, match=r"Cleaning removes \d+ % of the letters in .*corpus\.txt\. It keeps only a to"
    ):
        list(read_tokens(path, get_tokenizer(level)))


@pytest.mark.parametrize("text", KEPT.values(), ids=list(KEPT))
def test_a_corpus_in_the_latin_alphabet_is_read(
    corpus_file: Write, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    list(read_tokens(corpus_file(text), get_tokenizer("word")))
    assert not caplog.messages


def test_half_of_a_corpus_is_worth_a_warning(corpus_file: Write, caplog: pytest.LogCaptureFixture) -> None:
    path = corpus_file("hello / привет привет")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert list(read_tokens(path, get_tokenizer("word"))) == [(0, ["hello"])]
    (message,) = caplog.messages  # 5 of 17 letters are kept
    assert message.startswith(f"cleaning removes 71 % of the letters in {path}. It keeps only a to z")


def test_the_first_utterances_decide(corpus_file: Write) -> None:
    """A corpus of any length is refused at once, and a few foreign utterances later are no reason."""
    foreign = ["привет / как дела"] * SAMPLE_UTTERANCES
    path = corpus_file(*["hello / you"] * SAMPLE_UTTERANCES, *foreign)
    assert len(list(read_tokens(path, get_tokenizer("word")))) == 2 * SAMPLE_UTTERANCES
    with pytest.raises(CorpusError, match="Cleaning removes 100 %"):
        next(read_tokens(corpus_file(*foreign, "hello"), get_tokenizer("word")))
