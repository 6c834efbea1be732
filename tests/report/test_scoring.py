"""Scores of predictions against several references; questions and transcripts read from files."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import sacrebleu

from seq2seq_chat.data.samples import read_samples
from seq2seq_chat.report import scoring
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.report.predictions import (
    Prediction,
    Predictions,
    Transcript,
    further_questions,
    read_questions,
    read_transcript,
)
from seq2seq_chat.report.scoring import References, ensure_comparable, read_references, score_predictions
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.tokenizers import TokenizerSettings, create_tokenizer
from tests.conftest import edit_config

TEXTS = [
    ("Ein Haus!", "ein haus !", "Das Haus!", "das haus !", "Ein Heim.", "ein heim ."),
    ("Der Hund bellt.", "der hund bellt .", "Der Hund bellt laut.", "der hund bellt laut .", "Wau wau", "wau wau"),
    ("Ja, so ist es.", "ja , so ist es .", "Ja.", "ja .", "ja, so ist es.", "ja , so ist es ."),
]


def test_texts_and_tokens_have_references_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in blocks of two."""
    monkeypatch.setattr(scoring, "BLOCK", 2)
    monkeypatch.setattr("seq2seq_chat.report.predictions.BLOCK", 2)
    lines = [
        Prediction(n, "x", reply, expected, 3 + n, reply_tokens, expected_tokens, -1.0, 1.0, 1, 1)
        for n, (reply, reply_tokens, expected, expected_tokens, _, _) in enumerate(TEXTS)
    ]
    path = tmp_path / "predictions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [{}, *(line._asdict() for line in lines)]))
    replies, reply_tokens, expected, expected_tokens, texts, tokens = map(list, zip(*TEXTS, strict=True))
    corpus = score_predictions(Predictions(path, 3), "translation", [References(texts, tokens)])
    assert {score.kind.key: score.value() for score in corpus.scores} == {
        "bleu": sacrebleu.corpus_bleu(replies, [expected, texts]).score,
        "bleu_lowercase": sacrebleu.corpus_bleu(replies, [expected, texts], lowercase=True).score,
        "bleu_tokenized": sacrebleu.corpus_bleu(reply_tokens, [expected_tokens, tokens], tokenize="none").score,
        "chrf": sacrebleu.corpus_chrf(replies, [expected, texts]).score,
    }
    assert corpus.source_lengths.tolist() == [3, 4, 5]
    conversation = score_predictions(Predictions(path, 3), "conversation", [References(texts, tokens)])
    assert {score.kind.key: score.value() for score in conversation.scores} == {
        "bleu": sacrebleu.corpus_bleu(reply_tokens, [expected_tokens, tokens], force=True).score,
        "chrf": sacrebleu.corpus_chrf(reply_tokens, [expected_tokens, tokens]).score,
    }


def test_references_of_evenly_spaced_samples(loaded: LoadedRun, corpora: Path, tmp_path: Path) -> None:
    """Of a conversation, too: a line for each of its samples."""
    data, settings = corpora / "validation.txt", loaded.config.data
    count = len(list(read_samples(data, settings, loaded.codecs.tokenizers)))
    (tmp_path / "numbers.gz").write_bytes(gzip.compress("".join(f"Line {n}!\n" for n in range(count)).encode()))
    (every_third,) = read_references([tmp_path / "numbers.gz"], data, loaded.codecs, settings, count // 3)
    chosen = [n * count // (count // 3) for n in range(count // 3)]
    assert every_third.texts == [f"Line {n}!" for n in chosen]
    assert every_third.tokens == [f"line {n} !" for n in chosen]
    (tmp_path / "long.txt").write_text("a\n" * (count + 1))
    with pytest.raises(UserError, match=rf"long.txt has {count + 1} lines, but .*validation.txt has {count} samples"):
        read_references([tmp_path / "long.txt"], data, loaded.codecs, settings, 2)


def test_tokens_of_different_tokenizers_are_not_compared(run_copy: Path, tiny_run: Path) -> None:
    edit_config(run_copy, "data", tokenizer="unicode")
    with pytest.raises(UserError, match="different tokenizers, so their tokenized scores cannot be compared"):
        ensure_comparable(Run(tiny_run), "a.txt", Run(run_copy), "a.txt", None)


def test_tokenizers_that_write_lower_case() -> None:
    lower, other = (TokenizerSettings("english"), TokenizerSettings("unicode", lowercase=True)), ("unicode", "thesis")
    assert all(scoring.writes_lower_case(create_tokenizer(settings)) for settings in lower)
    others = (create_tokenizer(TokenizerSettings(name)) for name in (*other, "character"))
    assert not any(map(scoring.writes_lower_case, others))


def test_transcripts(tmp_path: Path) -> None:
    questions = ["hello !", "how are you ?", "bye"]

    def read(text: str, questions: Sequence[str] = questions) -> Transcript:
        (tmp_path / "bot.txt").write_text(text, encoding="utf-8")
        return read_transcript(str(tmp_path / "bot.txt"), questions)

    bot = read("How are you?\tfine\nwhere ?\there\nhow ARE you\tbad\nBye!\t\nwho ?\tme\n")
    assert bot.column(questions) == ("bot", [None, "fine", ""])  # not asked, the first of two replies, an empty one
    assert read("где ты?\tтут\nКак дела?\tхорошо\n").column(["как дела ?", "Где ты ?"]).replies == ["хорошо", "тут"]
    assert read(":)\tglad\n").column(["?", ":)"]).replies == [None, "glad"]  # neither has words
    lines = read("hi\n\nfine\nciao\n")
    assert lines.column(["how are you ?", "hello !"]).replies == ["fine", "hi"]
    assert further_questions([lines, bot, read("WHERE\tno\nwhy ?\tso\n")], questions) == ["where ?", "who ?", "why ?"]
    for text, message in (("hi\n", "1 line for 3"), ("x\ty\nz\n", "line 2"), ("x\ty\n", "none of the questions")):
        with pytest.raises(UserError, match=message):
            read(text).column(questions)
    (tmp_path / "none.txt").write_text("\n \n", encoding="utf-8")
    with pytest.raises(UserError, match="no questions"):
        read_questions(tmp_path / "none.txt")
