"""Options of the command line reach the functions behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from seq2seq_chat.prepare.readers.lines import LinesSettings
from seq2seq_chat.prepare.readers.reddit import RedditSettings
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.tokenizers import TokenizerSettings
from webui.limits import Limits

Cli = Callable[..., Any]


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], MagicMock]:
    """Replace a function by one that records its arguments and ends the command."""

    def replace(name: str) -> MagicMock:
        recorder = MagicMock(side_effect=UserError("recorded"))
        monkeypatch.setattr(name, recorder)
        return recorder

    return replace


READER = RedditSettings(subreddits=("a", "b"), max_words=30, min_score=-2)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            "reddit in --subreddit b --subreddit a --max-words 30 --min-score -2 --split 8,1,1 --seed 7 "
            "--vocabulary-size 900 --tokenizer unicode --lowercase --encoder-steps 20 --decoder-steps 25 --max-bad 3 "
            "--jobs 1",
            PrepareSettings(
                "reddit",
                READER,
                split=(8, 1, 1),
                seed=7,
                vocabulary_size=900,
                tokenizer=TokenizerSettings("unicode", lowercase=True),
                pairing="alternating",
                encoder_steps=20,
                decoder_steps=25,
                max_bad=3,
                jobs=1,
            ),
        ),
        (
            "opensubtitles in --max-gap off --keep-copies --engine spark --spark-master local[2] --memory 4GB --jobs 3",
            PrepareSettings(
                *("opensubtitles", None, None, True),
                engine="spark",
                spark_master="local[2]",
                memory="4GB",
                jobs=3,
            ),
        ),
        (
            "opensubtitles in --max-gap 2.5 --pairing alternating --jobs 1",
            PrepareSettings("opensubtitles", max_gap=2.5, pairing="alternating", jobs=1),
        ),
        (
            "cornell in --tokenizer subword --subword-model bpe --jobs 1",
            PrepareSettings("cornell", tokenizer=TokenizerSettings("subword", subword_model="bpe"), jobs=1),
        ),
        ("--jobs 1 dailydialog in", PrepareSettings("dailydialog", jobs=1)),
        ("tweets in --jobs 1", PrepareSettings("tweets", pairing="alternating", jobs=1)),
        ("lines in --turns odd-even --jobs 1", PrepareSettings("lines", LinesSettings("odd-even"), jobs=1)),
    ],
)
def test_prepare(cli: Cli, record: Callable[[str], MagicMock], arguments: str, expected: PrepareSettings) -> None:
    prepare = record("seq2seq_chat.prepare.pipeline.prepare")
    assert "recorded" in cli("prepare", *arguments.split(), "--output", "out").error_message
    prepare.assert_called_once_with(expected, ("in",), "out")


def test_evaluate(cli: Cli, record: Callable[[str], MagicMock], tiny_run: Path, corpora: Path) -> None:
    evaluate = record("seq2seq_chat.report.evaluate.evaluate")
    data = str(corpora / "train.txt")
    options = ["--data", data, "--snapshot", "10", "--limit", 7, "--sent2vec", "s.bin", "--output", "out"]
    options += ["--beam-width", 3, "--reference", data, "--reference", data, "--baseline", f"{tiny_run}:20"]
    assert "recorded" in cli("evaluate", tiny_run, *options).error_message
    (run, *arguments), keywords = evaluate.call_args
    assert (run.path, arguments) == (tiny_run, [data, "10", 7])
    baseline = keywords.pop("baseline")
    assert (baseline.run.path, baseline.snapshot) == (tiny_run, "20")
    assert keywords == {"beam_width": 3, "sent2vec": "s.bin", "folder": "out", "references": (data, data)}


def test_compare(cli: Cli, record: Callable[[str], MagicMock], tiny_run: Path, run_copy: Path, tmp_path: Path) -> None:
    """Runs of the same experiment have the names of their folders in the legend."""
    draw = record("seq2seq_chat.report.figures.curves.draw_curves")
    other = run_copy.rename(run_copy.with_name("other"))
    options = ["--output", tmp_path / "curves.png"]
    assert "recorded" in cli("experiments", "compare", tiny_run, other, *options).error_message
    (curves,) = draw.call_args.args
    assert [curve.label.partition(",")[0] for curve in curves] == [tiny_run.name, "other"]


def test_serve(cli: Cli, record: Callable[[str], MagicMock]) -> None:
    serve = record("webui.server.serve")
    options = ["--results", "here", "--host", "0.0.0.0", "--port", 80, "--token", "t", "--models", 2, "--waiting", 90]
    assert "recorded" in cli("serve", *options, "--cores", 3).error_message
    limits = Limits(max_models=2, max_queued=90, max_queued_total=180)
    assert serve.call_args.args[:6] == ("here", "0.0.0.0", 80, "t", limits, 3)
