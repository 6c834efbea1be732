"""Dumps of comments: selection of subreddits, and damage."""

import gzip
import json
from pathlib import Path

import pytest

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.pipeline import prepare
from seq2seq_chat.prepare.readers.reddit import RedditSettings
from seq2seq_chat.prepare.settings import PrepareSettings
from tests.prepare.raw import dump


def test_incomplete_files_are_reported_first(months: Path, tmp_path: Path) -> None:
    first, last = months / "RC_2010-01", months / "RC_2010-03.gz"
    first.write_text(first.read_text() + "{broken}\n" * 300)
    dump(months / "RC_2010-03", range(4000, 4100))
    compressed = gzip.compress((months / "RC_2010-03").read_bytes())
    (months / "RC_2010-03").unlink()
    last.write_bytes(compressed[:-200])
    with pytest.raises(CorpusError, match=r"RC_2010-03\.gz, after byte .*: the compressed data are damaged"):
        prepare(PrepareSettings("reddit", jobs=1), [months], tmp_path / "out")


def test_subreddit_names_with_several_encodings(months: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (months / "RC_2010-01").read_text().splitlines()]
    text = "".join(json.dumps(line | {"subreddit": "café/1"}).replace("/", "\\/") + "\n" for line in lines)
    (tmp_path / "RC_2010-01").write_text(text)
    statistics = [
        prepare(
            PrepareSettings("reddit", reader=RedditSettings(subreddits=names), split=(1, 0, 0)),
            [path],
            tmp_path / f"out{number}",
        )
        for number, (path, names) in enumerate(
            [(months / "RC_2010-01", ()), (tmp_path / "RC_2010-01", ("café/1",)), (tmp_path / "RC_2010-01", ())]
        )
    ]
    assert statistics[0]["total"] == statistics[1]["total"] == statistics[2]["total"]
    assert (tmp_path / "out0" / "train.txt").read_bytes() == (tmp_path / "out1" / "train.txt").read_bytes()


def test_time_overflow_is_damage(tmp_path: Path) -> None:
    comments = [
        {"id": "a", "link_id": "t3_x", "parent_id": "t3_x", "subreddit": "s", "body": "hello", "created_utc": 1},
        {"id": "b", "link_id": "t3_x", "parent_id": "t1_a", "subreddit": "s", "body": "you", "created_utc": 2},
        {"id": "c", "link_id": "t3_x", "parent_id": "t1_a", "subreddit": "s", "body": "no", "created_utc": 10**400},
    ]
    (tmp_path / "RC_2011-01").write_text("".join(json.dumps(comment) + "\n" for comment in comments))
    statistics = prepare(PrepareSettings("reddit", vocabulary_size=50, max_bad=50), [tmp_path], tmp_path / "out")
    assert (statistics["reading"]["damaged"], statistics["total"]["utterances"]) == (1, 2)
