"""The checks as a command: what it prints, writes and exits with; and the figures of the cheap ones by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seq2seq_chat.checks import suite
from seq2seq_chat.checks.data import check_data
from seq2seq_chat.checks.overfitting import _pairs, check_overfitting
from seq2seq_chat.checks.subject import Finding, Subject
from seq2seq_chat.checks.suite import Verdict, run_checks, summary, write_verdicts
from seq2seq_chat.config import Config, parse_config
from seq2seq_chat.corpus.copy_task import copy_corpus, copy_sequences
from seq2seq_chat.corpus.files import write_conversations
from seq2seq_chat.errors import UserError


def configuration(folder: Path, **model: object) -> Config:
    settings = {
        "name": "checked",
        "data": {"train": str(folder / "train.txt"), "test": str(folder / "test.txt"), "pairing": "alternating"},
        "model": {"encoder_steps": 4, "decoder_steps": 4, **model},
    }
    return parse_config(settings, where="test")


def quiet(text: str) -> None:
    pass


def test_the_figures_of_a_corpus_by_hand(tmp_path: Path) -> None:
    pairs = [("a b", "c d"), ("a b", "c d"), ("a b c d e", "f"), ("g", "h i j k")]  # the last two do not fit
    write_conversations(tmp_path / "train.txt", pairs)
    write_conversations(tmp_path / "test.txt", [("a b", "c d"), ("x", "y"), ("a", "b"), ("g", "g"), ("b", "a")])
    config = configuration(tmp_path)
    finding = check_data(Subject(config, tmp_path), quiet)
    assert finding.passed
    assert finding.figure == "coverage 100.0 %, cut 50.0 %, overlap 20.0 %"
    assert "4 samples" in finding.detail and "repeated samples 25.0 %" in finding.detail

    small = config.model_copy(update={"data": config.data.model_copy(update={"vocabulary_size": 4 + 3})})
    # kept are the three most frequent words, a, b and c; of the 2 + 2 + 1 + 4 words of the replies, c is known twice
    finding = check_data(Subject(small, tmp_path), quiet)
    assert not finding.passed
    assert finding.figure.startswith("coverage 22.2 %")


def test_missing_data_is_told_and_the_bundled_sample_is_used(tmp_path: Path) -> None:
    subject = Subject(configuration(tmp_path), tmp_path)
    assert subject.missing_data is not None and "train.txt" in subject.missing_data
    finding = check_data(subject, quiet)
    assert not finding.passed and "train.txt" in finding.detail
    source, target = next(subject.real_samples())
    assert (" ".join(source), len(target)) == ("hello !", 13)


def test_characters_and_samples_that_do_not_fit(tmp_path: Path) -> None:
    write_conversations(tmp_path / "train.txt", [("hi you", "oh")])
    config = configuration(tmp_path, encoder_steps=8)
    characters = config.model_copy(update={"data": config.data.model_copy(update={"level": "character"})})
    assert _pairs(Subject(characters, tmp_path)) == [("h i space y o u", "o h")]
    short = configuration(tmp_path, encoder_steps=1)
    finding = check_overfitting(Subject(short, tmp_path), quiet)
    assert not finding.passed and "no sample is short enough" in finding.detail


def test_a_check_that_cannot_be_made_fails_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(subject: Subject, progress: object) -> Finding:
        raise UserError("the disk is full")

    def good(subject: Subject, progress: object) -> Finding:
        return Finding(True, "0.5", "≤ 1")

    monkeypatch.setattr(suite, "CHECKS", {"broken": broken, "good": good})
    verdicts = run_checks(Subject(configuration(tmp_path), tmp_path))
    assert [(v.check, v.finding.passed, v.finding.detail) for v in verdicts] == [
        ("broken", False, "the disk is full"),
        ("good", True, ""),
    ]


def test_sizes_shrink_and_the_architecture_does_not(tmp_path: Path) -> None:
    config = configuration(tmp_path, hidden_size=2048, embedding_size=1024, projection_size=None, layers=2)
    small = Subject(config, tmp_path).sized(100, hidden=64, units=48, steps=9)
    assert (small.model.hidden_size, small.model.embedding_size, small.model.projection_size) == (64, 48, None)
    assert (small.model.layers, small.model.attention) == (2, "additive")
    assert small.training.sampled_softmax == 75, "a sampled softmax stays one"
    full = Subject(config, tmp_path, full_size=True).sized(100, hidden=64, units=48, steps=9)
    assert full.model.hidden_size == 2048


def test_copy_sequences_are_those_of_the_thesis() -> None:
    sequences, held_out = copy_corpus(40, seed=1)
    assert len(sequences) == 10_000 and len(held_out) == 500
    assert not set(sequences) & set(held_out)
    lengths = [len(sequence.split()) for sequence in sequences]
    assert (min(lengths), max(lengths)) == (1, 40)
    assert {int(symbol) for sequence in sequences for symbol in sequence.split()} == set(range(20))
    assert copy_sequences(50, 40, seed=1) == copy_sequences(50, 40, seed=1) != copy_sequences(50, 40, seed=2)


def test_verdicts_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def good(subject: Subject, progress: object) -> Finding:
        return Finding(True, "0.5", "≤ 1", "fine")

    def bad(subject: Subject, progress: object) -> Finding:
        return Finding(False, "7", "≤ 1", curve=((10, 0.25),))

    monkeypatch.setattr(suite, "CHECKS", {"good": good, "bad": bad})
    verdicts = run_checks(Subject(configuration(tmp_path), tmp_path))
    printed = capsys.readouterr().out
    assert "passed  good: 0.5 (must be: ≤ 1)" in printed and "FAILED  bad: 7 (must be: ≤ 1)" in printed
    table = summary(verdicts)
    assert "1 of 2 checks failed: bad" in table
    assert summary(verdicts[:1]).endswith("all checks passed, in 0:00")
    write_verdicts(verdicts, tmp_path / "checks.json")
    written = json.loads((tmp_path / "checks.json").read_text())
    assert written["passed"] is False
    assert [(c["check"], c["passed"], c["figure"], c["threshold"]) for c in written["checks"]] == [
        ("good", True, "0.5", "≤ 1"),
        ("bad", False, "7", "≤ 1"),
    ]
    assert written["checks"][1]["curve"] == [[10, 0.25]]
    assert run_checks(Subject(configuration(tmp_path), tmp_path), only=["bad"])[0].check == "bad"
    assert isinstance(verdicts[0], Verdict)
