"""Prepared corpora against an oracle: plain Python, line by line, in dictionaries, on real and on made-up files.

The oracle shares nothing with the package but ``clean`` and, for corpora too small to be split, ``complete_splits``.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import math
import os
import random
import re
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import md5
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq_chat.corpus import CorpusError, Vocabulary, clean, prepare, tables
from seq2seq_chat.corpus.engine import open_engine
from seq2seq_chat.corpus.figures import engine_words
from seq2seq_chat.corpus.inputs import find_inputs
from seq2seq_chat.corpus.opus import BrokenFilm, Sentences, film_sentences, parse_sentences, scan_sentences
from seq2seq_chat.corpus.shards import ReadingSettings
from seq2seq_chat.corpus.split import complete_splits

SPLITS = ("train", "validation", "test")
Conversations = list[tuple[str, list[str]]]  # thread, utterances


# ---- the oracle ------------------------------------------------------------------------------------------------------


def oracle_comments(files: Sequence[Sequence[str]]) -> Iterator[dict[str, Any]]:
    """The sound comments of dumps, given as lines."""
    for lines in files:
        for line in lines:
            try:
                comment = json.loads(line)
                _ = comment["id"], comment["body"] + comment["link_id"], comment["parent_id"], comment["subreddit"]
            except (ValueError, KeyError, TypeError):
                continue
            yield comment


def oracle_reddit(
    files: Sequence[Sequence[str]], subreddits: Sequence[str], max_words: int | None, min_score: int | None
) -> Conversations:
    """(submission, [comment, answer]) in the order of the comments, and of the answers to each."""
    known: dict[str, dict[str, Any]] = {}
    for comment in oracle_comments(files):
        if subreddits and comment["subreddit"] not in subreddits:
            continue
        if comment["body"] in ("[deleted]", "[removed]"):
            continue
        if min_score is not None and comment.get("score", 0) < min_score:
            continue
        body = comment["body"].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
        text = clean(body)
        if not text or (max_words is not None and len(text.split()) > max_words):
            continue
        name = comment.get("name") or "t1_" + comment["id"]
        known.setdefault(name, {"link": comment["link_id"], "parent": comment["parent_id"], "text": text})
    children: dict[str, list[str]] = {}
    for name, comment in known.items():
        parent = known.get(comment["parent"])
        if parent is not None and comment["parent"] != name and parent["link"] == comment["link"]:
            children.setdefault(comment["parent"], []).append(name)
    return [
        (known[name]["link"], [known[name]["text"], known[child]["text"]])
        for name in known
        for child in children.get(name, [])
    ]


def oracle_film(content: bytes) -> list[tuple[str, float | None, float | None]]:
    """(text, start, end) of the sentences of which cleaning leaves something. Raises ParseError."""
    flat: list[tuple[str, Any]] = []  # every sentence's end, word and time in their order

    def walk(element: ET.Element, inside: bool) -> None:
        for child in element:
            if inside and child.tag == "w":
                flat.append(("word", "".join(child.itertext())))
            elif inside and child.tag == "time":
                flat.append(("time", (child.get("id", "").endswith("S"), child.get("value", ""))))
            walk(child, inside or child.tag == "s")
            if child.tag == "s":
                flat.append(("end", None))

    walk(ET.fromstring(content), False)
    found = []
    begin = 0
    for place, (kind, _) in enumerate(flat):
        if kind != "end":
            continue
        words = [number for number in range(begin, place) if flat[number][0] == "word"]
        begin = place + 1
        text = clean(" ".join(flat[number][1] for number in words))
        if not text:
            continue
        before = [item for kind, item in flat[: words[0]] if kind == "time"][-1:]
        after = [item for kind, item in flat[words[-1] :] if kind == "time"][:1]
        start = oracle_seconds(before[0][1]) if before and before[0][0] else None
        end = oracle_seconds(after[0][1]) if after and not after[0][0] else None
        found.append((text, start, end))
    return found


def oracle_seconds(value: str) -> float | None:
    parts = re.split("[:,.]", value.strip())
    if len(parts) not in (3, 4) or not all(re.fullmatch(r"[0-9]+", part) for part in parts[:3]):
        return None
    fraction = (parts[3] if len(parts) == 4 else "")[:3]
    if fraction and not re.fullmatch(r"[0-9]+", fraction):
        return None
    hours, minutes, whole = map(int, parts[:3])
    return ((hours * 3600 + minutes * 60 + whole) * 1000 + int(fraction.ljust(3, "0") or 0)) / 1000


def oracle_films(contents: Sequence[tuple[str, bytes]], max_gap: float) -> Conversations:
    """Conversations of films, given with their names; those that are broken are left out."""
    conversations: Conversations = []
    for name, content in contents:
        try:
            sentences = oracle_film(content)
        except (ET.ParseError, UnicodeDecodeError):
            continue
        before = None
        for number, (text, start, end) in enumerate(sentences):
            silent = start is not None and before is not None and abs(start - before) > max_gap
            if number == 0 or silent:
                conversations.append((name, []))
            conversations[-1][1].append(text)
            before = end if end is not None else start
    return conversations


def oracle_split(
    conversations: Conversations, shares: tuple[float, float, float], seed: int
) -> dict[str, list[list[str]]]:
    """The conversations of each split."""
    splits: dict[str, str] = {}
    for thread, _ in conversations:
        place = int(md5(f"{seed} {thread}".encode()).hexdigest()[:13], 16) / 16**13 * sum(shares)
        splits[thread] = "train" if place < shares[0] else "validation" if place < shares[0] + shares[1] else "test"
    if len(splits) < 3 or set(splits.values()) != {name for name, share in zip(SPLITS, shares, strict=True) if share}:
        splits |= complete_splits(splits, shares, seed)
    return {name: [texts for thread, texts in conversations if splits[thread] == name] for name in SPLITS}


# ---- what was prepared -----------------------------------------------------------------------------------------------


def written(folder: Path) -> dict[str, list[list[str]]]:
    """The conversations in the corpus files."""
    found = {}
    for name in SPLITS:
        text = (folder / f"{name}.txt").read_text(encoding="ascii")
        assert text == "" or text.endswith("\n<<<<<END-CONV>>>>>\n")
        found[name] = [part.splitlines() for part in text.split("<<<<<END-CONV>>>>>\n")[:-1]]
    return found


def check(
    folder: Path, conversations: Conversations, shares: tuple[float, float, float] = (97, 1, 2), seed: int = 1
) -> None:
    """Corpus files, table, vocabulary and statistics against what the oracle makes of the conversations."""
    expected = oracle_split(conversations, shares, seed)
    assert written(folder) == expected
    rows = pq.read_table(folder / "utterances.parquet").to_pylist()
    numbered = [
        (name, number, position, text)
        for name in SPLITS
        for number, texts in enumerate(expected[name], sum(len(expected[n]) for n in SPLITS[: SPLITS.index(name)]))
        for position, text in enumerate(texts)
    ]
    assert [(row["split"], row["conversation"], row["position"], row["text"]) for row in rows] == numbered
    assert all(row["words"] == len(row["text"].split()) for row in rows)
    counts = Counter(word for texts in expected["train"] for text in texts for word in text.split())
    words = sorted(counts, key=lambda word: (-counts[word], word))
    vocabulary = Vocabulary.load(folder / "vocabulary.txt").words
    assert vocabulary[4:] == words[: len(vocabulary) - 4]
    learned = set(vocabulary[4:])
    statistics = json.loads((folder / "statistics.json").read_text())
    for name in SPLITS:
        texts = [text for conversation in expected[name] for text in conversation]
        known = sum(word in learned for text in texts for word in text.split())
        total = sum(len(text.split()) for text in texts)
        assert statistics[name] | {"samples": 0, "too_long_percent": 0} == {
            "conversations": len(expected[name]),
            "utterances": len(texts),
            "samples": 0,
            "words": total,
            "distinct_words": len({word for text in texts for word in text.split()}),
            "coverage_percent": round(100 * known / total, 2) if total else 0.0,
            "too_long_percent": 0,
        }


# ---- Reddit ----------------------------------------------------------------------------------------------------------

bodies = st.one_of(
    st.sampled_from(
        ["[deleted]", "[removed]", "", "yes .", "a &gt; b &amp;lt; c", "x\ny\r\n z", "\ud83d cut", "É!? ﬁ 你"]
    ),
    st.text(max_size=12),
    st.lists(st.sampled_from(["the", "film", "was", "good", "."]), max_size=6).map(" ".join),
)
identifiers = st.sampled_from([f"c{number}" for number in range(8)])
links = st.sampled_from(["t3_a", "t3_b", "t3_c", "t3_d"])
comments = st.fixed_dictionaries(
    {
        "id": identifiers,
        "link_id": links,
        "parent_id": st.one_of(identifiers.map("t1_{}".format), links),
        "body": bodies,
        "subreddit": st.sampled_from(["movies", "films", "Movies", "pics"]),
        "score": st.integers(-3, 3),
        "created_utc": st.one_of(st.integers(0, 10**9), st.integers(0, 10**9).map(str)),
    },
    optional={"author": st.just("movies"), "gilded": st.just(0)},
)


def written_comment(comment: dict[str, Any], style: int, with_name: bool) -> str:
    """A comment as a line of a dump: with and without spaces, escapes and a ``name``."""
    if with_name:
        comment = {"name": "t1_" + comment["id"], **comment}
    text = json.dumps(comment, ensure_ascii=style % 2 == 0 or "\ud83d" in comment["body"])
    if style >= 2:
        text = json.dumps(comment, separators=(",", ":")).replace("ovies", "\\u006fvies")
    return text


dump_lines = st.one_of(
    st.builds(written_comment, comments, st.integers(0, 3), st.booleans()),
    st.sampled_from(['{"id": "c1", "subreddit": "movies"', '{"id": "c1"}', "", "null", '{"subreddit":"movies"}', "}{"]),
)
dumps = st.lists(st.lists(dump_lines, max_size=25), min_size=1, max_size=3)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(
    dumps,
    st.sampled_from([(), ("movies",), ("films", "movies")]),
    st.sampled_from([None, 3]),
    st.sampled_from([None, 0]),
    st.sampled_from([bytes, gzip.compress]),
)
def test_reddit(files, subreddits, max_words, min_score, pack) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, lines in enumerate(files):
            ends = "\n" if number % 2 else "\r\n"
            (folder / f"RC_{number}.json").write_bytes(pack("".join(line + ends for line in lines).encode()))
        conversations = oracle_reddit(files, subreddits, max_words, min_score)
        reading = ReadingSettings(subreddits=subreddits, max_words=max_words, min_score=min_score)
        how = {"reading": reading, "split": (2, 1, 1), "max_bad": 100, "pairing": "alternating", "jobs": 1}
        if conversations:
            statistics = prepare("reddit", [folder], folder / "out", **how)
            check(folder / "out", conversations, (2, 1, 1))
            assert statistics["total"]["samples"] == len(conversations)
        else:
            with pytest.raises(CorpusError):
                prepare("reddit", [folder], folder / "out", **how)


def data_folder(name: str) -> Path:
    data = os.environ.get("SEQ2SEQ_CHAT_DATA")
    if not data or not Path(data, name).is_dir():
        pytest.skip(f"SEQ2SEQ_CHAT_DATA names no folder with {name}/")
    return Path(data, name)


@pytest.mark.parametrize(("subreddits", "max_words", "min_score"), [((), None, None), (("reddit.com",), 30, 1)])
def test_real_reddit(tmp_path: Path, subreddits: tuple[str, ...], max_words: int | None, min_score: int | None) -> None:
    folder = data_folder("reddit")
    packed = zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(
        io.BytesIO((folder / "RC_2005-12.zst").read_bytes()), read_across_frames=True
    )
    files = [
        packed.read().decode().split("\n"),
        bz2.decompress((folder / "RC_2006-01.bz2").read_bytes()).decode().split("\n"),
    ]
    conversations = oracle_reddit(files, subreddits, max_words, min_score)
    assert len(conversations) > 100
    reading = ReadingSettings(subreddits=subreddits, max_words=max_words, min_score=min_score)
    prepare("reddit", [folder], tmp_path / "out", reading=reading, vocabulary_size=3000)
    check(tmp_path / "out", conversations)


# ---- films -----------------------------------------------------------------------------------------------------------

times = st.one_of(
    st.integers(0, 5 * 10**6).map(
        lambda ms: f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02},{ms % 1000:03}"
    ),
    st.sampled_from(["00:00:0,500", "0:1:2.5", "00:00:-1,500", "", "1:2", "00:00:07"]),
)
time_elements = st.builds('<time id="T{}{}" value="{}" />'.format, st.integers(1, 9), st.sampled_from("SE"), times)
word_texts = st.sampled_from(["Tell", "'s", "...", "?", "é", "A&amp;B", "&lt;i&gt;", "#", "&#233;", "", "[", "12"])
words = st.builds(
    '<w{} id="{}">{}</w>'.format,
    st.sampled_from(["", ' alternative="x"', ' emphasis="true"']),
    st.just("1.1"),
    word_texts,
)
odd_elements = st.sampled_from(
    ["<!-- c -->", "<i><w>x</w></i>", "<w>a<b>c</b></w>", "<w><![CDATA[<z>]]></w>", "loose", "<time/>"]
)
gaps = st.sampled_from(["\n    ", " ", ""])
sentences = st.builds(
    lambda parts, gap, mark: f'<s{mark} id="1">' + "".join(gap + part for part in parts) + f"{gap}</s>",
    st.lists(st.one_of(words, words, words, time_elements, time_elements), max_size=8),
    gaps,
    st.sampled_from(["", ' emphasis="true"']),
)
odd_sentences = st.builds(lambda part: f'<s id="1">{part}<w id="2">z</w></s>', odd_elements)
films = st.builds(
    lambda head, body, tail: f'{head}<document id="1">\n  ' + "\n  ".join(body) + f"{tail}</document>\n",
    st.sampled_from(['<?xml version="1.0" encoding="utf-8"?>\n', "", "<!-- made by us -->"]),
    st.lists(st.one_of(sentences, sentences, sentences, odd_sentences), max_size=6),
    st.sampled_from(["", "<meta><x>1 &amp; 2</x></meta>\n", "<meta/>", '<time id="T1E" value="00:00:01,000"/>']),
)


def columns(sentences: Sentences) -> list[tuple[str, float | None, float | None]]:
    lines = sentences.lines.decode().split("\n") if len(sentences.starts) else []
    clocks = [[None if math.isnan(t) else t for t in times] for times in (sentences.starts, sentences.ends)]
    return list(zip(map(clean, lines), *clocks, strict=True))


def read_film(content: bytes) -> list[tuple[str, float | None, float | None]]:
    return [sentence for sentence in columns(film_sentences(content)) if sentence[0]]


@settings(deadline=None, max_examples=300)
@given(films)
def test_films(text: str) -> None:
    content = text.encode()
    scanned = scan_sentences(content)
    if scanned is not None:
        assert columns(scanned) == columns(parse_sentences(content))
    assert read_film(content) == oracle_film(content)


def test_the_form_of_opus_is_scanned() -> None:
    text = (
        '<?xml version="1.0" encoding="utf-8"?>\n<document id="4">\n  <s emphasis="true" id="1">\n    '
        '<time id="T1S" value="00:00:04,537" />\n    <w alternative="On" id="1.1">ON</w>\n    <w id="1.2">.</w>\n    '
        '<time id="T1E" value="00:00:07,106" />\n  </s>\n  <s id="2">\n    <w id="2.1">You &amp; me</w>\n  </s>\n'
        "  <meta>\n    <year>2018</year>\n  </meta>\n</document>\n"
    )
    assert scan_sentences(text.encode()) is not None


@pytest.mark.parametrize(
    "frame",
    [
        "{}<document/>",
        "<document/>{}",
        '<document id="{}"/>',
        "<document><?note {}?></document>",
        "<document><meta>{}</meta></document>",
        '<?xml version="1.0" encoding = "iso-8859-1"?><document>{}</document>',
    ],
)
def test_sentences_are_scanned_only_where_a_document_has_them(frame: str) -> None:
    """What is left without them may be sound, and yet the whole broken, or something else."""
    content = frame.format('<s id="1"><w id="1.1">café</w></s>').encode()
    assert scan_sentences(content) is None


@pytest.mark.parametrize("start", ['s xmlns="x"', 'w xmlns="x"'])
def test_words_of_another_name_space_are_none(start: str) -> None:
    content = '<document><s id="1"><w id="1.1">a</w></s></document>'.replace(f'{start[0]} id="1', f'{start} id="1', 1)
    assert scan_sentences(content.encode()) is None


@settings(deadline=None, max_examples=300)
@given(
    films, st.integers(0, 10**6), st.integers(1, 6), st.sampled_from(["", "<", ">", "&", '"', "\x00", "\xff", "</w>"])
)
def test_damaged_films_are_told_and_no_others(text: str, place: int, length: int, put: str) -> None:
    content = text.encode()
    place %= len(content)
    content = content[:place] + put.encode("latin-1") + content[place + length :]
    try:
        expected: Any = oracle_film(content)
    except ET.ParseError:
        with pytest.raises(BrokenFilm):
            film_sentences(content)
        return
    try:
        assert read_film(content) == expected
    except BrokenFilm as fault:
        # The parser of the standard library does not look at every character.
        assert re.search("Namespace|namespace|Char|encoding|version", str(fault)), fault


@settings(deadline=None, max_examples=12)
@given(
    st.lists(films, min_size=1, max_size=6), st.sampled_from([0.0, 3.0, 100.0]), st.sampled_from([bytes, gzip.compress])
)
def test_films_become_conversations(contents: list[str], max_gap: float, pack: Callable[[bytes], bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        named = []
        for number, text in enumerate(contents):
            path = folder / "xml" / "en" / "2001" / str(number) / f"{number}.xml"
            path.parent.mkdir(parents=True)
            path.write_bytes(pack(text.encode()))
            named.append((f"2001/{number}/{number}", text.encode()))
        conversations = oracle_films(named, max_gap)
        how = {"max_gap": max_gap, "keep_copies": True, "split": (2, 1, 1), "jobs": 1}
        if any(len(texts) > 1 for _, texts in conversations):
            prepare("opensubtitles", [folder / "xml"], folder / "out", **how)
            check(folder / "out", conversations, (2, 1, 1))
        else:
            with pytest.raises(CorpusError):
                prepare("opensubtitles", [folder / "xml"], folder / "out", **how)


@pytest.mark.parametrize("max_gap", [2.0, 10.0, 1e9])
def test_real_films(tmp_path: Path, max_gap: float) -> None:
    folder = data_folder("opensubtitles")
    contents = [(item.film, gzip.decompress(item.path.read_bytes())) for item in find_inputs("opensubtitles", [folder])]
    assert len(contents) == 4
    assert all(scan_sentences(content) is not None for _, content in contents)
    conversations = oracle_films(contents, max_gap)
    prepare("opensubtitles", [folder], tmp_path / "out", max_gap=max_gap, keep_copies=True, vocabulary_size=500)
    check(tmp_path / "out", conversations)


def test_real_films_without_end(tmp_path: Path) -> None:
    folder = data_folder("opensubtitles")
    prepare("opensubtitles", [folder], tmp_path / "out", max_gap=None, split=(1, 0, 0))
    contents = [gzip.decompress(item.path.read_bytes()) for item in find_inputs("opensubtitles", [folder])]
    assert written(tmp_path / "out")["train"] == [[text for content in contents for text, _, _ in oracle_film(content)]]


# ---- Cornell ---------------------------------------------------------------------------------------------------------


def test_real_cornell(tmp_path: Path) -> None:
    folder = data_folder("cornell")
    lines = {}
    for line in gzip.decompress((folder / "movie_lines.txt.gz").read_bytes()).decode().split("\n"):
        fields = line.split(" +++$+++")
        if len(fields) == 5:
            lines[fields[0]] = clean(fields[4].replace("<u>", "").replace("</u>", ""))
    conversations = []
    for line in gzip.decompress((folder / "movie_conversations.txt.gz").read_bytes()).decode().splitlines():
        texts = [lines[name] for name in json.loads(line.split(" +++$+++ ")[3].replace("'", '"'))]
        if any(texts):
            conversations.append((str(len(conversations)), [text for text in texts if text]))
    assert len(conversations) > 8000
    prepare("cornell", [folder], tmp_path / "out", split=(90, 5, 5), seed=7)
    check(tmp_path / "out", conversations, (90, 5, 5), seed=7)


# ---- what is counted -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[tuple[str, float | None]]]]:
    """A prepared folder of films with times, and its conversations as (text, start) pairs."""
    draw = random.Random(5)
    folder = tmp_path_factory.mktemp("counted")
    conversations = []
    for film in range(30):
        clock, parts, texts = 0, [], []
        for _ in range(draw.randrange(2, 40)):
            clock += draw.choice([250, 500, 1000, 1499, 2250, 3000, 4800, 7600, 9100, 61000])
            text = " ".join(draw.choice("abcdefgh") for _ in range(draw.randrange(1, 7)))
            known = draw.random() < 0.9
            value = f"00:{clock // 60000:02}:{clock // 1000 % 60:02},{clock % 1000:03}"
            time = f'<time id="T1S" value="{value}"/>' if known else '<time id="T1E" value="x"/>'
            parts.append(f'<s id="1">{time}{"".join(f"<w>{word}</w>" for word in text.split())}</s>')
            texts.append((text, clock / 1000 if known else None))
        (folder / f"{film}.xml").write_text(f"<document>{''.join(parts)}</document>")
        conversations.append(texts)
    prepare(
        "opensubtitles", [folder], folder / "out", max_gap=1e9, keep_copies=True, split=(1, 0, 0), vocabulary_size=9
    )
    order = sorted(range(30), key=lambda number: f"{number}.xml")
    return folder / "out", [conversations[number] for number in order]


def rows(expression: Callable[[Any, Any], Any], folder: Path, scratch: Path) -> list[tuple[Any, ...]]:
    """What DuckDB finds in the utterances of a prepared folder."""
    with open_engine("duckdb", scratch) as engine:
        found = engine.rows(expression(engine.table(folder / "utterances.parquet"), engine))
        return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_ngrams(counted: Any, tmp_path: Path, size: int) -> None:
    folder, conversations = counted
    expected: Counter[str] = Counter()
    for texts in conversations:
        for text, _ in texts:
            words = text.split()
            expected.update(" ".join(words[place : place + size]) for place in range(len(words) - size + 1))
    found = rows(lambda table, _: tables.ngram_counts(table, size), folder, tmp_path)
    assert dict(found) == expected
    best = rows(lambda table, _: tables.most_frequent(tables.ngram_counts(table, size), 7, "ngram"), folder, tmp_path)
    assert best == sorted(expected.items(), key=lambda item: (-item[1], item[0]))[:7]


def test_missing_words(counted: Any, tmp_path: Path) -> None:
    folder, conversations = counted
    vocabulary = Vocabulary.load(folder / "vocabulary.txt")
    known = set(vocabulary.words[4:])
    assert len(known) == 5
    expected = Counter(sum(word not in known for word in text.split()) for texts in conversations for text, _ in texts)
    found = rows(
        lambda t, engine: tables.missing_words(t, engine_words(engine, vocabulary, tmp_path)), folder, tmp_path
    )
    assert found == sorted(expected.items())


def test_time_lags(counted: Any, tmp_path: Path) -> None:
    folder, conversations = counted
    expected: Counter[int | None] = Counter()
    for texts in conversations:
        for (_, before), (_, start) in pairwise(texts):
            expected[None if before is None or start is None else math.floor(start - before + 0.5)] += 1
    assert len(expected) > 8
    assert dict(rows(lambda table, _: tables.time_lags(table, "starts"), folder, tmp_path)) == expected


@pytest.mark.parametrize("pairing", ["sliding", "alternating"])
def test_samples(counted: Any, tmp_path: Path, pairing: Any) -> None:
    folder, conversations = counted
    lengths = [[len(text.split()) for text, _ in texts] for texts in conversations]
    step = 1 if pairing == "sliding" else 2
    pairs = [pair for conversation in lengths for pair in list(pairwise(conversation))[::step]]
    too_long = sum(source > 4 or target + 1 > 5 for source, target in pairs)
    (row,) = rows(lambda table, _: tables.figures(table, pairing, 4, 5), folder, tmp_path)
    words = sum(map(sum, lengths))
    assert row == ("train", 30, sum(map(len, lengths)), words, len(pairs), too_long)


def real_films() -> Iterator[list[tuple[str, float | None, float | None]]]:
    """The conversations of the real films, cut at silences of ten seconds, with their times."""
    for item in find_inputs("opensubtitles", [data_folder("opensubtitles")]):
        conversation: list[tuple[str, float | None, float | None]] = []
        before = None
        for text, start, end in oracle_film(gzip.decompress(item.path.read_bytes())):
            if start is not None and before is not None and abs(start - before) > 10:
                yield conversation
                conversation = []
            conversation.append((text, start, end))
            before = start if end is None else end
        yield conversation


def real_answers() -> Iterator[list[tuple[str, None, None]]]:
    """The conversations of the real comments."""
    packed = zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(
        io.BytesIO((data_folder("reddit") / "RC_2005-12.zst").read_bytes()), read_across_frames=True
    )
    for _, texts in oracle_reddit([packed.read().decode().split("\n")], (), None, None):
        yield [(text, None, None) for text in texts]


@pytest.mark.parametrize("corpus", ["opensubtitles", "reddit"])
def test_real_counts(tmp_path: Path, corpus: str) -> None:
    films = corpus == "opensubtitles"
    conversations: list[Any] = list(real_films() if films else real_answers())
    source = data_folder(corpus) if films else data_folder(corpus) / "RC_2005-12.zst"
    prepare(corpus, [source], tmp_path / "out", split=(1, 0, 0), keep_copies=True, vocabulary_size=1000)
    folder = tmp_path / "out"
    texts = [text.split() for conversation in conversations for text, _, _ in conversation]
    for size in (1, 2, 3):
        grams = Counter(" ".join(t[place : place + size]) for t in texts for place in range(len(t) - size + 1))
        assert len(grams) > 1000
        assert dict(rows(lambda table, _, size=size: tables.ngram_counts(table, size), folder, tmp_path)) == grams
    vocabulary = Vocabulary.load(folder / "vocabulary.txt")
    known = set(vocabulary.words[4:])
    missing = Counter(sum(word not in known for word in text) for text in texts)
    found = rows(
        lambda t, engine: tables.missing_words(t, engine_words(engine, vocabulary, tmp_path)), folder, tmp_path
    )
    assert found == sorted(missing.items())
    if not films:
        return
    for between, place in (("starts", 1), ("silence", 2)):
        lags: Counter[int | None] = Counter()
        for conversation in conversations:
            for before, after in pairwise(conversation):
                known_times = before[place] is not None and after[1] is not None
                lag = after[1] - before[place] if known_times else 0.0
                lags[int(math.copysign(math.floor(abs(lag) + 0.5), lag)) if known_times else None] += 1
        assert len(lags) > 5
        by_engine = rows(lambda table, _, between=between: tables.time_lags(table, between), folder, tmp_path)
        assert dict(by_engine) == lags
