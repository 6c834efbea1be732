"""Running and reporting checks, and hand-computed results of the fast ones."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seq2seq_chat.checks import suite
from seq2seq_chat.checks.check_context import CheckContext, CheckResult
from seq2seq_chat.checks.invariants import check_data
from seq2seq_chat.checks.reply_tasks import (
    aligned_share,
    check_alignment,
    check_overfitting,
    copy_corpus,
    copy_sequences,
    short_pairs,
)
from seq2seq_chat.checks.suite import run_checks, summary, write_results
from seq2seq_chat.config import Config, parse_config
from seq2seq_chat.data.corpus_file import bundled_conversations, write_conversations
from seq2seq_chat.system.errors import UserError

Sizes = tuple[int, int, int | None]  # of the hidden layer, an embedding and the projection


def configuration(folder: Path, **model: object) -> Config:
    settings = {
        "name": "checked",
        "data": {"train": str(folder / "train.txt"), "test": str(folder / "test.txt"), "pairing": "alternating"},
        "model": {"encoder_steps": 4, "decoder_steps": 4, **model},
    }
    return parse_config(settings, where="test")


def ignore(text: str) -> None:
    pass


def test_data_check_by_hand(tmp_path: Path) -> None:
    pairs = [("a b", "c d"), ("a b", "c d"), ("a b c d e", "f"), ("g", "h i j k")]  # the last two exceed the steps
    write_conversations(tmp_path / "train.txt", pairs)
    write_conversations(tmp_path / "test.txt", [("a b", "c d"), ("x", "y"), ("a", "b"), ("g", "g"), ("b", "a")])
    config = configuration(tmp_path)
    result = check_data(CheckContext(config, tmp_path), ignore)
    assert result.passed
    assert result.measured == "coverage 100.0 %, truncated 50.0 %, overlap 20.0 %"
    assert "4 samples" in result.detail and "duplicate samples 25.0 %" in result.detail

    small = config.model_copy(update={"data": config.data.model_copy(update={"vocabulary_size": 4 + 3})})
    # the vocabulary keeps a, b and c; of the 2 + 2 + 1 + 4 words of the replies, only c is known, twice
    result = check_data(CheckContext(small, tmp_path), ignore)
    assert not result.passed
    assert result.measured.startswith("coverage 22.2 %")


def test_missing_data_is_replaced_by_the_bundled_sample(tmp_path: Path) -> None:
    context = CheckContext(configuration(tmp_path), tmp_path)
    assert context.data_error is not None and "train.txt" in context.data_error
    result = check_data(context, ignore)
    assert not result.passed and "train.txt" in result.detail
    sample = next(context.real_samples())
    assert bundled_conversations().read_text().splitlines()[:2] == [sample.source, sample.target]


def test_short_pairs_of_characters_and_checks_without_anything_to_do(tmp_path: Path) -> None:
    write_conversations(tmp_path / "train.txt", [("hi you", "oh")])
    config = configuration(tmp_path, encoder_steps=8)
    characters = config.model_copy(update={"data": config.data.model_copy(update={"tokenizer": "english_character"})})
    assert short_pairs(CheckContext(characters, tmp_path)) == [("h i <space> y o u", "o h")]
    result = check_alignment(CheckContext(configuration(tmp_path, attention="none"), tmp_path), ignore)
    assert result.passed and result.measured == "no attention to measure"
    short = configuration(tmp_path, encoder_steps=1)
    result = check_overfitting(CheckContext(short, tmp_path), ignore)
    assert not result.passed and "no sample fits" in result.detail


def test_the_checks_of_a_translation_run_on_corpora_of_their_own(tmp_path: Path) -> None:
    settings = {"name": "x", "task": "translation", "data": {"train": "x.tsv", "validation": "y.tsv"}}
    config = parse_config(settings | {"training": {"best_metric": "bleu", "early_stopping": 2}}, "x.json")
    small = CheckContext(config, tmp_path).small_config(
        100, hidden_size=64, embedding_size=48, steps=9, data={"train": "corpus.txt"}
    )
    assert (small.task, small.training.best_metric) == ("conversation", "loss")


def test_alignment_by_hand() -> None:
    """Two words attend to their own place and three to the next one; the second reply is a word short."""
    rows = [[[0.9, 0.1, 0.0], [0.0, 0.4, 0.6], [0.1, 0.2, 0.7]], [[0.2, 0.5, 0.3], [0.3, 0.3, 0.4]]]
    replies = [SimpleNamespace(hypotheses=[SimpleNamespace(attention=attention)]) for attention in rows]
    chatbot: Any = SimpleNamespace(replies=lambda texts, decoding: replies)
    assert aligned_share(chatbot, ["a b c", "d e f"], (0,)) == 2 / 6
    assert aligned_share(chatbot, ["a b c", "d e f"], (-1, 0, 1)) == 5 / 6


@pytest.mark.parametrize(
    ("sizes", "tied", "full_size", "expected"),
    [
        ((2048, 1024, None), False, False, (64, 48, None)),
        ((2048, 1024, None), False, True, (2048, 1024, None)),
        ((512, 40, 40), True, False, (64, 40, 40)),
        ((512, 512, None), True, False, (64, 64, None)),  # tied embeddings keep the size of the output
    ],
)
def test_small_config_keeps_the_architecture(
    tmp_path: Path, sizes: Sizes, tied: bool, full_size: bool, expected: Sizes
) -> None:
    model = dict(zip(("hidden_size", "embedding_size", "projection_size"), sizes, strict=True))
    config = configuration(tmp_path, layers=2, tie_embeddings=tied, **model)
    context = CheckContext(config, tmp_path, full_size=full_size)
    small = context.small_config(100, hidden_size=64, embedding_size=48, steps=9)
    assert (small.model.hidden_size, small.model.embedding_size, small.model.projection_size) == expected
    assert (small.model.layers, small.model.attention) == (2, "additive")
    assert small.training.sampled_softmax == 75  # still a sampled softmax


def test_copy_sequences_of_the_thesis() -> None:
    sequences, held_out = copy_corpus(40, seed=1)
    assert len(sequences) == 10_000 and len(held_out) == 500
    assert not set(sequences) & set(held_out)
    lengths = [len(sequence.split()) for sequence in sequences]
    assert (min(lengths), max(lengths)) == (1, 40)
    assert {int(symbol) for sequence in sequences for symbol in sequence.split()} == set(range(20))
    assert copy_sequences(50, 40, seed=1) == copy_sequences(50, 40, seed=1) != copy_sequences(50, 40, seed=2)


def test_results_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def good(context: CheckContext, progress: object) -> CheckResult:
        return CheckResult(True, "0.5", "≤ 1", "fine")

    def bad(context: CheckContext, progress: object) -> CheckResult:
        return CheckResult(False, "7", "≤ 1", curve=((10, 0.25),))

    def broken(context: CheckContext, progress: object) -> CheckResult:
        raise UserError("the disk is full")

    checks = {each.__name__: suite.Check(each, "nothing") for each in (broken, good, bad)}
    monkeypatch.setattr(suite, "CHECKS", checks)
    failed, *completed = run_checks(CheckContext(configuration(tmp_path), tmp_path))
    assert (failed.name, failed.result.passed, failed.result.detail) == ("broken", False, "the disk is full")
    printed = capsys.readouterr().out
    assert "passed  good: 0.5 (required: ≤ 1)" in printed and "FAILED  bad: 7 (required: ≤ 1)" in printed
    table = summary([*completed, completed[0]._replace(result=completed[0].result._replace(measured="nats " * 50))])
    assert max(map(len, table.splitlines())) == 80
    assert "1 of 3 checks failed: bad" in table
    assert summary(completed[:1]).endswith("all checks passed, in 0:00")
    write_results(completed, tmp_path / "checks.json")
    written = json.loads((tmp_path / "checks.json").read_text())
    assert written["passed"] is False
    assert [(c["check"], c["passed"], c["figure"], c["threshold"]) for c in written["checks"]] == [
        ("good", True, "0.5", "≤ 1"),
        ("bad", False, "7", "≤ 1"),
    ]
    assert written["checks"][1]["curve"] == [[10, 0.25]]
    assert run_checks(CheckContext(configuration(tmp_path), tmp_path), only=["bad"])[0].name == "bad"


@pytest.mark.parametrize(("passed", "missing", "status"), [(1, 0, 0), (0, 0, 1), (1, 1, 3), (0, 1, 1)])
def test_exit_status(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passed: int, missing: int, status: int
) -> None:
    if not missing:
        for name in ("train", "test"):
            write_conversations(tmp_path / f"{name}.txt", [("a", "b")])
    results = {"good": CheckResult(True, "0", "0"), "other": CheckResult(bool(passed), "1", "0")}
    checks = {name: suite.Check(lambda *_, each=each: each, "nothing") for name, each in results.items()}
    monkeypatch.setattr(suite, "CHECKS", checks)
    (tmp_path / "checked.json").write_text(configuration(tmp_path).to_json(), encoding="utf-8")
    result = cli("check", tmp_path / "checked.json", "--results", tmp_path, "--json", tmp_path / "results.json")
    assert result.status == status
    assert ("train.txt and 1 more" in result.out.splitlines()[-1]) == bool(missing)
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["passed"] is bool(passed)


def test_an_interrupted_check_leaves_no_corpora(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(context: CheckContext, progress: object) -> CheckResult:
        context.random_corpus("copies", 10, 5, 3)
        raise KeyboardInterrupt

    monkeypatch.setattr(suite, "CHECKS", {"slow": suite.Check(interrupted, "nothing")})
    (tmp_path / "checked.json").write_text(configuration(tmp_path).to_json(), encoding="utf-8")
    assert cli("check", tmp_path / "checked.json", "--results", tmp_path).status == 130
    (folder,) = (tmp_path / "checks").iterdir()
    assert list(folder.iterdir()) == []
