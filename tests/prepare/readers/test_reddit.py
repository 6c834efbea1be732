"""Dumps of comments: selection of subreddits, and damage."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION, CorpusError
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


def test_pairs_of_comments_and_replies_by_hand(tmp_path: Path) -> None:
    comments = [
        ("a", "t3_x", "t3_x", "1 &gt; 2 &amp;lt; 3", 1),  # four words: 1 2 lt 3
        ("b", "t3_x", "t1_a", "four words <i> have", 0),
        ("c", "t3_x", "t1_a", "five words are too many", 5),
        ("d", "t3_y", "t1_a", "of another submission", 5),
        ("e", "t3_x", "t1_b", "its score is low", -1),
        ("f", "t3_x", "t1_b", "good", 2),
        ("g", "t3_x", "t1_g", "to itself", 2),
        ("h", "t3_x", "t1_a", "[deleted]", 2),
    ]
    keys = ("id", "link_id", "parent_id", "body", "score")
    lines = [json.dumps(dict(zip(keys, values, strict=True)) | {"subreddit": "s"}) for values in comments]
    (tmp_path / "RC_2011-01").write_text("\n".join(lines) + "\n")
    reader = RedditSettings(max_words=4, min_score=0)
    prepare(PrepareSettings("reddit", reader=reader, split=(1, 0, 0)), [tmp_path], tmp_path / "out")
    assert (tmp_path / "out" / "train.txt").read_text().split("\n") == [
        *("1 2 lt 3", "four words i have", END_OF_CONVERSATION),
        *("four words i have", "good", END_OF_CONVERSATION, ""),
    ]


def test_time_overflow_is_damage(tmp_path: Path) -> None:
    comments = [
        {"id": "a", "link_id": "t3_x", "parent_id": "t3_x", "subreddit": "s", "body": "hello", "created_utc": 1},
        {"id": "b", "link_id": "t3_x", "parent_id": "t1_a", "subreddit": "s", "body": "you", "created_utc": 2},
        {"id": "c", "link_id": "t3_x", "parent_id": "t1_a", "subreddit": "s", "body": "no", "created_utc": 10**400},
    ]
    (tmp_path / "RC_2011-01").write_text("".join(json.dumps(comment) + "\n" for comment in comments))
    statistics = prepare(PrepareSettings("reddit", vocabulary_size=50, max_bad=50), [tmp_path], tmp_path / "out")
    assert (statistics["reading"]["damaged"], statistics["total"]["utterances"]) == (1, 2)
