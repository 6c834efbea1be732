"""Options of the command line reach the functions behind it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from seq2seq_chat.config import Decoding
from seq2seq_chat.prepare.readers.lines import LinesSettings
from seq2seq_chat.prepare.readers.reddit import RedditSettings
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.runs.run import create_run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.tokenizers import TokenizerSettings
from tests.conftest import Cli
from tests.random_runs import make_codec, small_config
from webui.limits import Limits


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], MagicMock]:
    """Replace a function by one that records its arguments and ends the command."""

    def replace(name: str) -> MagicMock:
        recorder = MagicMock(side_effect=UserError("recorded"))
        monkeypatch.setattr(name, recorder)
        return recorder

    return replace


READER = RedditSettings(subreddits=("a", "b"), max_words=30, min_score=-2, keep_bots=True)
LOWERCASE = TokenizerSettings("unicode", lowercase=True, normalize_apostrophes=True)
SUBWORDS = TokenizerSettings("subword", subword_model="bpe")
SIZES = {"vocabulary_size": 900, "encoder_steps": 20, "decoder_steps": 25, "max_bad": 3}
SPARK = {"engine": "spark", "spark_master": "local[2]", "memory": "4GB"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            "reddit in --subreddit b --subreddit a --max-words 30 --min-score -2 --keep-bots --split 8,1,1 --seed 7 "
            "--vocabulary-size 900 --tokenizer unicode --lowercase --encoder-steps 20 --decoder-steps 25 --max-bad 3",
            {"reader": READER, "split": (8, 1, 1), "seed": 7, "tokenizer": LOWERCASE, "pairing": "alternating"} | SIZES,
        ),
        (
            "opensubtitles in --max-gap off --keep-copies --engine spark --spark-master local[2] --memory 4GB",
            {"max_gap": None, "keep_copies": True} | SPARK,
        ),
        ("opensubtitles in --max-gap 2.5 --pairing alternating", {"max_gap": 2.5, "pairing": "alternating"}),
        ("cornell in --tokenizer subword --subword-model bpe", {"tokenizer": SUBWORDS}),
        ("dailydialog in", {}),
        ("dailydialog in --tokenizer unicode --keep-apostrophes", {"tokenizer": TokenizerSettings("unicode")}),
        ("tweets in", {"pairing": "alternating"}),
        ("lines in --turns odd-even", {"reader": LinesSettings("odd-even")}),
    ],
)
def test_prepare(cli: Cli, record: Callable[[str], MagicMock], arguments: str, expected: dict[str, Any]) -> None:
    prepare, (corpus, *options) = record("seq2seq_chat.prepare.pipeline.prepare"), arguments.split()
    for jobs in (["--jobs", 3, corpus], [corpus, "--jobs", 3]):
        assert "recorded" in cli("prepare", *jobs, *options, "--output", "out").error_message
        prepare.assert_called_with(PrepareSettings(corpus, jobs=3, **expected), ("in",), "out")


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


def test_chat_sets_options_of_the_beam_search_that_it_selects(
    cli: Cli, record: Callable[[str], MagicMock], tmp_path: Path
) -> None:
    run = create_run(tmp_path, small_config(), Codecs.shared(make_codec("english", ["word"])), {})
    load = record("seq2seq_chat.chat.chatbot.Chatbot.load")
    cli("chat", run.path, "--beam-width", 4, "--n-best", 2, "--set", "decoding.beam_groups=4")
    decoding = load.call_args.args[3]
    assert decoding == Decoding(method="beam", beam_width=4, n_best=2, beam_groups=4)
