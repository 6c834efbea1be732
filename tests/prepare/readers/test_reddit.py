"""Dumps of comments: selection of subreddits, and damage."""

import gzip
import json
from pathlib import Path

import pytest

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.pipeline import find_inputs, prepare
from seq2seq_chat.prepare.readers.reddit import RedditSettings
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.text.tokenizers import TokenizerSettings
from tests.conftest import Cli
from tests.prepare.raw import dump


def write(path: Path, *comments: object) -> Path:
    path.write_text("".join(json.dumps(comment) + "\n" for comment in comments))
    return path


def reply(name: str, parent: str, body: str, **fields: object) -> dict[str, object]:
    """A comment in the submission t3_x."""
    return {"id": name, "link_id": "t3_x", "parent_id": parent, "subreddit": "s", "body": body, **fields}


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
    plain, renamed, statistics = months / "RC_2010-01", tmp_path / "RC_2010-01", []
    for number, (path, names) in enumerate([(plain, ()), (renamed, ("café/1",)), (renamed, ())]):
        settings = PrepareSettings("reddit", reader=RedditSettings(subreddits=names), split=(1, 0, 0))
        statistics.append(prepare(settings, [path], tmp_path / f"out{number}"))
    assert statistics[0]["total"] == statistics[1]["total"] == statistics[2]["total"]
    assert (tmp_path / "out0" / "train.txt").read_bytes() == (tmp_path / "out1" / "train.txt").read_bytes()


def test_time_overflow_is_damage(tmp_path: Path) -> None:
    times = {"hello": 1, "you": 2, "no": 10**400}
    comments = [reply(body[0], "t1_h" if body != "hello" else "t3_x", body, created_utc=t) for body, t in times.items()]
    write(tmp_path / "RC_2011-01", *comments)
    statistics = prepare(PrepareSettings("reddit", vocabulary_size=50, max_bad=50), [tmp_path], tmp_path / "out")
    assert (statistics["reading"]["damaged"], statistics["total"]["utterances"]) == (1, 2)


def test_words_are_counted_in_the_comment_as_it_is_written(tmp_path: Path) -> None:
    """Neither marks, which become tokens, nor words that the tokenizer removes change the number of words."""
    bodies = ["one, two! three?", "don't\n\nsay  #this", "it's l'été \u2026 now", "a b c d"]
    comments = (reply(f"c{n}", f"t1_c{n - 1}" if n else "t3_x", body) for n, body in enumerate(bodies))
    write(tmp_path / "RC_2011-01", *comments)
    reader, tokenizer = RedditSettings(max_words=3), TokenizerSettings("thesis")
    settings = PrepareSettings("reddit", reader, split=(1, 0, 0), tokenizer=tokenizer)
    prepare(settings, [tmp_path], tmp_path / "out")
    *texts, _ = (tmp_path / "out" / "train.txt").read_text().splitlines()
    assert texts == ["one , two ! three ?", "say"]


def test_dumps_of_years(cli: Cli, tmp_path: Path) -> None:
    names = ("RC_2005-12", "RC_2006-01.zst", "RC_2006-02.bz2", "RC_2008-01", "movies.jsonl")
    for name in names:
        (tmp_path / name).write_text("{}")
    for years, expected in (((), (0, 1, 2, 3, 4)), ((2006,), (1, 2)), ((2005, 2008), (0, 3))):
        found = find_inputs("reddit", [tmp_path / name for name in names], RedditSettings(years=years))
        assert [(file.file, file.path.name) for file in found] == list(enumerate(names[n] for n in expected))
    command = ("prepare", "reddit", tmp_path, "--output", tmp_path / "out", "--year")
    message = cli(*command, "2005", "--year", "2006-2008").error_message
    assert message.startswith("There is no dump of 2007 in the inputs")
    for wrong in ("2008-2006", "06"):
        assert f"{wrong} is neither a year nor a range of years" in cli(*command, wrong).err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("[ Removed by Reddit ]", None),
        ("[ Removed by Reddit on account of violating the [content policy](/help/contentpolicy). ]", None),
        ("[deleted by user]", None),
        ("[deleted scenes](http://x.y)", "[deleted scenes](http://x.y)"),
        ("&amp;#x200B;\n\nI liked&amp;nbsp;it&#39;s end", "I liked it's end"),
        ("a\u200bb &amp;lt; c", "ab &lt; c"),
        ("&gt; what you said\n\nwell, &gt;!no!&lt;", "well, >!no!<"),
        ("&gt; only a quote", None),
        ("fine\n\n**EDIT 2:** thanks\n\nfor the gold", "fine"),
        ("credit: me", "credit: me"),
        ("^^I ^^am ^^a ^^bot, beep", None),
        ("*I am a bot, and this action was performed automatically.*", None),
        ("the robot said so", "the robot said so"),
    ],
)
def test_bodies_of_today(tmp_path: Path, body: str, text: str | None) -> None:
    comments = reply("a", "t3_x", "hello"), reply("b", "t1_a", body), reply("c", "t1_a", "the end")
    write(tmp_path / "films_comments.zst", *comments)
    settings = PrepareSettings("reddit", tokenizer=TokenizerSettings("whitespace"))
    prepare(settings, [tmp_path], tmp_path / "out")
    lines = (tmp_path / "out" / "train.txt").read_text().splitlines()
    assert lines[1::3] == ([] if text is None else [text]) + ["the end"]


def test_other_subreddits_are_named(tmp_path: Path) -> None:
    write(tmp_path / "RC_2023-01", *({"subreddit": name} for name in ("b", "a", "b", ["c"], None)))
    with pytest.raises(CorpusError, match=r"0 of 5 comments are in subreddit s\. .* there is b: 2, a: 1\."):
        prepare(PrepareSettings("reddit", RedditSettings(("s",))), [tmp_path], tmp_path / "out")


def test_numbers_as_ids_submissions_and_bots(tmp_path: Path) -> None:
    """As the API of Pushshift wrote them: 33 and 360 are x and a0 to the base of 36."""
    lines = [
        {"id": "0", "name": "t3_x", "subreddit": "S", "title": "T", "selftext": "s"},
        {"id": "a0", "link_id": "t3_x", "parent_id": 33, "subreddit": "S", "body": "hello", "author": "Abbot"},
        {"id": 361, "link_id": 33, "parent_id": 360, "subreddit": "s", "body": "you", "author": "MirrorBot"},
    ]
    dump = write(tmp_path / "RC_2023-01", *lines)
    with pytest.raises(CorpusError, match=r"1 comment \(by bots, such as “you”\)"):
        prepare(PrepareSettings("reddit", RedditSettings(("s",))), [dump], tmp_path / "out")
    statistics = prepare(PrepareSettings("reddit", RedditSettings(("s",), keep_bots=True)), [dump], tmp_path / "out")
    assert (statistics["total"]["utterances"], statistics["reading"]["left_out"]) == (2, {"submissions": 1})
    for field, message in (("parent_id", "parent_id has the wrong type"), ("body", "body is missing")):
        wrong = {key: value for key, value in lines[1].items() if key != "body" or field != "body"}
        wrong |= {"parent_id": [1]} if field == "parent_id" else {}
        dump.write_text(json.dumps(wrong))
        with pytest.raises(CorpusError, match=f"not a comment: {message}"):
            prepare(PrepareSettings("reddit"), [dump], tmp_path / "out")
