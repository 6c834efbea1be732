"""Films from files and archives, copies of films, damage, and files that are not in the exact format of OPUS."""

import gzip
import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION, CorpusError
from seq2seq_chat.prepare.pipeline import prepare
from seq2seq_chat.prepare.readers.opus import film_sentences, parse_time, scan_sentences
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.system.compressed import DamagedFile
from tests.prepare.raw import film

LONG = "/".join(f"this is sentence number {n} and it is long enough" for n in range(60))


def scenes(first: int) -> str:
    """The 60 sentences of a film that begins at a scene."""
    return "/".join(f"everything happens in scene number {n} of this film" for n in range(first, first + 60))


def test_copies_are_detected_by_their_sentences(tmp_path: Path) -> None:
    files = {
        "1.xml": film(LONG),
        "2.xml": film(LONG).replace(b"<w>", b'<time id="T1S" value="00:00:01,000"/><w>'),
        "3.xml": film(LONG.replace("number 7 ", "no 7 ").replace("number 8 ", "no 8 ")),
        "4.xml": film(LONG.replace("sentence", "phrase")),
        "5.xml": film("short/film"),
        "6.xml": film("short/film"),
        "7.xml": film("short/films"),
        **{f"8{letter}.xml": film(scenes(first)) for letter, first in (("a", 0), ("b", 20), ("c", 40))},
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    statistics = prepare(PrepareSettings("opensubtitles", split=(1, 0, 0)), [tmp_path], tmp_path / "out")
    assert statistics["reading"]["copies"] == 4
    text = (tmp_path / "out" / "train.txt").read_text()
    assert text.count("short\n") == 2
    assert text.count("this is sentence number 30 and") == 1
    assert text.count("this is phrase number 30 and") == 1
    kept = [text.count(f"in scene number {n} of") for n in (0, 30, 50, 70, 90)]
    assert kept == [1, 1, 2, 1, 1], "8b is a copy of 8a; 8c is like 8b, but not like 8a"
    kept = prepare(PrepareSettings("opensubtitles", split=(1, 0, 0), keep_copies=True), [tmp_path], tmp_path / "out")
    assert (kept["reading"]["copies"], kept["total"]["conversations"]) == (0, 10)


@pytest.mark.parametrize("form", ["plain", "gz", "zip", "zip of gz", "list", "files"])
def test_film_sources_are_equivalent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    def write_films(folder: Path, compress: Callable[[bytes], bytes], suffix: str) -> list[Path]:
        paths = []
        for year, number in ((1999, 3), (1999, 20), (2001, 1), (2001, 100)):
            path = folder / "OpenSubtitles" / "xml" / "en" / str(year) / f"{number}" / f"{number}.xml{suffix}"
            path.parent.mkdir(parents=True)
            path.write_bytes(compress(film(f"film {number}/says {number}")))
            paths.append(path)
        return paths

    write_films(tmp_path / "plain", bytes, "")
    prepare(PrepareSettings("opensubtitles", split=(1, 1, 1)), [tmp_path / "plain"], tmp_path / "expected")
    paths = write_films(tmp_path / "other", *((gzip.compress, ".gz") if "gz" in form else (bytes, "")))
    given = [tmp_path / "other"]
    if "zip" in form:
        given = [tmp_path / "en.zip"]
        with zipfile.ZipFile(given[0], "w", zipfile.ZIP_DEFLATED) as archive:
            for path in reversed(paths):
                archive.write(path, path.relative_to(tmp_path / "other"))
    elif form == "list":
        given = [tmp_path / "films.txt"]
        order = sorted(paths, key=lambda path: path.parts)
        given[0].write_text("".join(f"{path}\n" for path in order))
    elif form == "files":
        given = sorted(paths, key=lambda path: path.parts)
    prepare(PrepareSettings("opensubtitles", split=(1, 1, 1)), given, tmp_path / "out")
    for name in ("train.txt", "validation.txt", "test.txt", "utterances.parquet", "vocabulary.txt"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "expected" / name).read_bytes()


def test_damage_is_reported_and_counted(tmp_path: Path) -> None:
    folder = tmp_path / "films"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.xml").write_bytes(film(f"film {number}/says {number}"))
    (folder / "3.xml").write_bytes(film("never closed")[:-9])
    (folder / "4.xml").write_bytes(film("wrong \xe9").decode().encode("latin-1"))
    cut = gzip.compress(film(LONG))
    (folder / "5.xml.gz").write_bytes(cut[: len(cut) // 2])
    with pytest.raises(CorpusError, match=r"3\.xml: invalid XML: .* line 1.* 3 of 11 files.*--max-bad"):
        prepare(PrepareSettings("opensubtitles"), [folder], tmp_path / "out")
    statistics = prepare(PrepareSettings("opensubtitles", max_bad=30), [folder], tmp_path / "out")
    assert statistics["total"]["conversations"] == 8
    reading = json.loads((tmp_path / "out" / "statistics.json").read_text())["reading"]
    assert (reading["records"], reading["damaged"], reading["incomplete_files"]) == (11, 3, 3)
    assert [Path(damage.split(":")[0]).name for damage in reading["damages"]] == ["3.xml", "4.xml", "5.xml.gz"]


def test_truncated_archive_is_damage(tmp_path: Path) -> None:
    folder = tmp_path / "films"
    folder.mkdir()
    for number in range(3):
        with zipfile.ZipFile(folder / f"{number}.zip", "w") as archive:
            archive.writestr(f"1999/{number}/{number}.xml", film(f"film {number}/says {number}"))
    complete = (folder / "1.zip").read_bytes()
    (folder / "1.zip").write_bytes(complete[: len(complete) // 2])
    with pytest.raises(CorpusError, match=r"1\.zip: could not be decompressed: .* 1 of 3 files"):
        prepare(PrepareSettings("opensubtitles"), [folder], tmp_path / "out")
    statistics = prepare(PrepareSettings("opensubtitles", max_bad=50), [folder], tmp_path / "out")
    assert (statistics["total"]["utterances"], statistics["reading"]["incomplete_files"]) == (4, 1)
    (folder / "1.zip").write_bytes(complete)
    assert prepare(PrepareSettings("opensubtitles"), [folder], tmp_path / "out")["total"]["utterances"] == 6


def test_modified_archive_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "films.zip"
    for words in ("one/film", "quite another/film here"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("1999/1/1.xml", film(words))
        prepare(PrepareSettings("opensubtitles", split=(1, 0, 0)), [path], tmp_path / "out")
        assert (tmp_path / "out" / "train.txt").read_text().split("\n")[:2] == words.split("/")


def test_damaged_archive_members(tmp_path: Path) -> None:
    for number, method in enumerate((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)):
        path = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("1999/1/1.xml", film(LONG))
        content = bytearray(path.read_bytes())
        start = content.index(b"1.xml") + 20
        content[start : start + 20] = b"\xff" * 20
        path.write_bytes(content)
    with pytest.raises(CorpusError, match=r"could not be decompressed: .* 4 of 4 files"):
        prepare(PrepareSettings("opensubtitles"), [tmp_path], tmp_path / "out")


def test_conversations_are_cut_at_long_silences(tmp_path: Path) -> None:
    """A silence lasts from the end of a sentence, or else its start, to the next start; its limit here is 10 s."""
    sentences = [
        ("1,000", "2,000", "a"),
        ("12,000", "13,000", "b"),  # exactly 10 s
        ("23,001", None, "c"),  # 1 ms longer: cut
        ("33,002", "34,000", "d"),  # 10.001 s after the start of c: cut
        (None, "60,000", "e"),  # at an unknown time
        ("70,001", "75,000", "f"),  # cut, after the end of e
        ("65,000", "66,000", "g"),  # the clock jumps back by 10 s
        ("55,999", "57,000", "h"),  # and by 10.001 s: cut
    ]
    body = "".join(f"<s>{_time('S', start)}<w>{word}</w>{_time('E', end)}</s>" for start, end, word in sentences)
    (tmp_path / "1.xml").write_text(f"<document>{body}</document>")
    prepare(PrepareSettings("opensubtitles", max_gap=10.0, split=(1, 0, 0)), [tmp_path / "1.xml"], tmp_path / "out")
    lines = (tmp_path / "out" / "train.txt").read_text().split("\n")
    assert " ".join(lines).split(f" {END_OF_CONVERSATION} ") == ["a b", "c", "d e", "f g", "h", ""]
    uncut = PrepareSettings("opensubtitles", max_gap=None, split=(1, 0, 0))
    prepare(uncut, [tmp_path / "1.xml"], tmp_path / "out")
    assert (tmp_path / "out" / "train.txt").read_text().count(END_OF_CONVERSATION) == 1


def _time(kind: str, seconds: str | None) -> str:
    return f'<time id="T1{kind}" value="00:00:{seconds.zfill(6)}"/>' if seconds else ""


FILM = '<?xml version="1.0" encoding="utf-8"?><document id="1"><s id="1">{}</s></document>'


def sentences(content: bytes | str) -> list[str]:
    film = film_sentences(content.encode() if isinstance(content, str) else content)
    return film.lines.decode().split("\n")


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<w>a</w>&amp;<w>b</w>", ["a b"]),
        ("<w>a</w>&#32;<w>b</w>", ["a b"]),
        ("<w>a&#10;b</w>", ["a b"]),
        ("<w><b>a</b>b</w>", ["ab"]),
        ("<w>a<!-- <w>c</w> -->b</w>", ["ab"]),
        ("<w><![CDATA[a]]></w>", ["a"]),
        ("<w>a</w><s><w>b</w></s><w>c</w>", ["a b c"]),
        ('<w id="1>2">a</w>', ["a"]),
        ("<w\tid='1'>a</w>", ["a"]),
        ("<w>a]b</w>", ["a]b"]),
    ],
)
def test_valid_but_unusual(inside: str, expected: list[str]) -> None:
    assert sentences(FILM.format(inside)) == expected


@pytest.mark.parametrize(
    "inside",
    [
        "<w&amp;>a</w>",
        '<w&#32;id="1">a</w>',
        '<w id="1" id="2">a</w>',
        "<w>a</w",
        "<w>a</s>",
        "<w>a & b</w>",
        "<w>a\x01</w>",
        "<w>a\ufffe</w>",
        "<w>a]]>b</w>",
        '<w id="&amp">a</w>',
        "<w>&unknown;</w>",
    ],
)
def test_malformed(inside: str) -> None:
    with pytest.raises(DamagedFile):
        film_sentences(FILM.format(inside).encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "windows-1252"])
def test_other_encodings(encoding: str) -> None:
    text = FILM.format("<w>café</w>").replace("utf-8", encoding[:6] if encoding.startswith("utf") else encoding)
    assert sentences(text.encode(encoding)) == ["café"]


def test_invalid_utf8_is_reported_with_its_offset() -> None:
    content = FILM.format("<w>caf?</w>").encode().replace(b"?<", b"\xe9<")
    with pytest.raises(DamagedFile, match=f"byte {content.index(0xE9)} is not UTF-8"):
        film_sentences(content)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("00:00:01,250", 1.25),
        ("1:2:3.5", 3723.5),
        ("01:00:00", 3600.0),
        ("00:00:01,2509", 1.25),
        ("00:00:-1,250", None),
        ("00:00", None),
        (f"{'9' * 400}:00:00,000", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("identifier", ["T1S", "T1E", "", "S"])
def test_times(value: str, expected: float | None, identifier: str) -> None:
    assert parse_time(value.encode()) == pytest.approx(math.nan if expected is None else expected, nan_ok=True)
    time = f'<time id="{identifier}" value="{value}" />'
    content = FILM.format(f"{time}<w>a</w>{time}").encode()
    film = scan_sentences(content)
    assert film is not None
    is_start = identifier.endswith("S")
    known = [None if math.isnan(value) else value for value in (*film.starts.tolist(), *film.ends.tolist())]
    assert known == [expected if is_start else None, None if is_start else expected]
