"""Compare prepared corpora to those of an oracle, on real and on generated files."""

import bz2
import gzip
import io
import json
import math
import re
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.pipeline import find_inputs, prepare
from seq2seq_chat.prepare.read_result import ReadResult
from seq2seq_chat.prepare.readers.opensubtitles import film_name
from seq2seq_chat.prepare.readers.opus import Sentences, film_sentences, parse_sentences, scan_sentences
from seq2seq_chat.prepare.readers.reddit import RedditSettings
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.system.compressed import DamagedFile
from seq2seq_chat.text.tokenizers.english import clean
from tests.prepare.oracle import check, data_folder, oracle_film, oracle_films, oracle_reddit


@pytest.fixture(scope="module", autouse=True)
def any_alphabet() -> Iterator[None]:
    """Generated texts may have few letters of the Latin alphabet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReadResult, "check_letters", lambda self: None)
        yield


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


def comment_line(comment: dict[str, Any], style: int, with_name: bool) -> str:
    """A comment as a line of a dump, with or without spaces, escapes and a ``name``."""
    if with_name:
        comment = {"name": "t1_" + comment["id"], **comment}
    text = json.dumps(comment, ensure_ascii=style % 2 == 0 or "\ud83d" in comment["body"])
    if style >= 2:
        text = json.dumps(comment, separators=(",", ":")).replace("ovies", "\\u006fvies")
    return text


dump_lines = st.one_of(
    st.builds(comment_line, comments, st.integers(0, 3), st.booleans()),
    st.sampled_from(['{"id": "c1", "subreddit": "movies"', '{"id": "c1"}', "", "null", '{"subreddit":"movies"}', "}{"]),
)
dumps = st.lists(st.lists(dump_lines, max_size=25), min_size=1, max_size=3)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(
    dumps,
    st.sampled_from([(), ("movies",), ("films", "movies")]),
    st.sampled_from([None, 3]),
    st.sampled_from([None, 0]),
    st.sampled_from([bytes, gzip.compress]),
)
def test_reddit_equals_oracle(files, subreddits, max_words, min_score, pack) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, lines in enumerate(files):
            ends = "\n" if number % 2 else "\r\n"
            (folder / f"RC_{number}.json").write_bytes(pack("".join(line + ends for line in lines).encode()))
        conversations = oracle_reddit(files, subreddits, max_words, min_score)
        reader = RedditSettings(subreddits=subreddits, max_words=max_words, min_score=min_score)
        settings = PrepareSettings("reddit", reader, split=(2, 1, 1), max_bad=100, pairing="alternating", jobs=1)
        if conversations:
            statistics = prepare(settings, [folder], folder / "out")
            check(folder / "out", conversations, (2, 1, 1))
            assert statistics["total"]["samples"] == len(conversations)
        else:
            with pytest.raises(CorpusError):
                prepare(settings, [folder], folder / "out")


@pytest.mark.parametrize(("subreddits", "max_words", "min_score"), [((), None, None), (("reddit.com",), 30, 1)])
def test_real_reddit(tmp_path: Path, subreddits: tuple[str, ...], max_words: int | None, min_score: int | None) -> None:
    folder = data_folder("reddit")
    packed = io.BytesIO((folder / "RC_2005-12.zst").read_bytes())
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    december = decompressor.stream_reader(packed, read_across_frames=True).read()
    january = bz2.decompress((folder / "RC_2006-01.bz2").read_bytes())
    files = [month.decode().split("\n") for month in (december, january)]
    conversations = oracle_reddit(files, subreddits, max_words, min_score)
    assert len(conversations) > 100
    reader = RedditSettings(subreddits=subreddits, max_words=max_words, min_score=min_score)
    prepare(PrepareSettings("reddit", reader=reader, vocabulary_size=3000), [folder], tmp_path / "out")
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


@settings(deadline=None, max_examples=150)
@given(films)
def test_film_equals_oracle(text: str) -> None:
    content = text.encode()
    scanned = scan_sentences(content)
    if scanned is not None:
        parsed = parse_sentences(content)
        assert scanned.lines == parsed.lines
        assert columns(scanned) == columns(parsed)
    assert read_film(content) == oracle_film(content)


def test_opus_format_is_scanned() -> None:
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
def test_scan_rejects_sentences_outside_a_document(frame: str) -> None:
    """The rest may be well-formed without the sentences although the document is not."""
    content = frame.format('<s id="1"><w id="1.1">café</w></s>').encode()
    assert scan_sentences(content) is None


@pytest.mark.parametrize("start", ['s xmlns="x"', 'w xmlns="x"'])
def test_words_of_another_namespace_are_ignored(start: str) -> None:
    content = '<document><s id="1"><w id="1.1">a</w></s></document>'.replace(f'{start[0]} id="1', f'{start} id="1', 1)
    assert scan_sentences(content.encode()) is None


@settings(deadline=None, max_examples=150)
@given(
    films, st.integers(0, 10**6), st.integers(1, 6), st.sampled_from(["", "<", ">", "&", '"', "\x00", "\xff", "</w>"])
)
def test_damage_is_detected_like_by_another_parser(text: str, offset: int, length: int, replacement: str) -> None:
    content = text.encode()
    offset %= len(content)
    content = content[:offset] + replacement.encode("latin-1") + content[offset + length :]
    try:
        expected: Any = oracle_film(content)
    except ET.ParseError:
        with pytest.raises(DamagedFile):
            film_sentences(content)
        return
    try:
        assert read_film(content) == expected
    except DamagedFile as error:
        # The parser of the standard library does not check every character.
        assert re.search("Namespace|namespace|Char|encoding|version", str(error)), error


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(
    st.lists(films, min_size=1, max_size=6), st.sampled_from([0.0, 3.0, 100.0]), st.sampled_from([bytes, gzip.compress])
)
def test_conversations_of_films_equal_oracle(
    contents: list[str], max_gap: float, pack: Callable[[bytes], bytes]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        named = []
        for number, text in enumerate(contents):
            path = folder / "xml" / "en" / "2001" / str(number) / f"{number}.xml"
            path.parent.mkdir(parents=True)
            path.write_bytes(pack(text.encode()))
            named.append((f"2001/{number}/{number}", text.encode()))
        conversations = oracle_films(named, max_gap)
        settings = PrepareSettings("opensubtitles", max_gap=max_gap, keep_copies=True, split=(2, 1, 1), jobs=1)
        if any(len(texts) > 1 for _, texts in conversations):
            prepare(settings, [folder / "xml"], folder / "out")
            check(folder / "out", conversations, (2, 1, 1))
        else:
            with pytest.raises(CorpusError):
                prepare(settings, [folder / "xml"], folder / "out")


@pytest.mark.parametrize("max_gap", [2.0, 10.0, 1e9])
def test_real_films(tmp_path: Path, max_gap: float) -> None:
    folder = data_folder("opensubtitles")
    films = find_inputs("opensubtitles", [folder])
    contents = [(film_name(film), gzip.decompress(film.path.read_bytes())) for film in films]
    assert len(contents) == 4
    assert all(scan_sentences(content) is not None for _, content in contents)
    conversations = oracle_films(contents, max_gap)
    settings = PrepareSettings("opensubtitles", max_gap=max_gap, keep_copies=True, vocabulary_size=500)
    prepare(settings, [folder], tmp_path / "out")
    check(tmp_path / "out", conversations)
