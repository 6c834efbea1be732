"""Pairs in tables, translation memories and archives as programs save them, read as they are."""

import csv
import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.prepare import pipeline
from tests.conftest import Cli

Prepare = Callable[..., list[tuple[str, ...]]]


@pytest.fixture
def prepare(cli: Cli, tmp_path: Path) -> Prepare:
    """``prepare(path, …)``: the pairs that `prepare pairs` makes of a file, with further options."""

    def run(path: Path, *options: object) -> list[tuple[str, ...]]:
        result = cli("prepare", "pairs", path, "--output", tmp_path / "out", "--split", "100,0,0", *options)
        assert result.status == 0, result
        lines = (tmp_path / "out" / "train.tsv").read_text("utf-8").splitlines()
        return [tuple(line.split("\t")) for line in lines]

    return run


@pytest.fixture
def refuse(cli: Cli, tmp_path: Path) -> Callable[..., str]:
    """``refuse(path, …)``: the error of `prepare pairs`."""

    def run(path: Path, *options: object) -> str:
        result = cli("prepare", "pairs", path, "--output", tmp_path / "out", *options)
        assert result.status == 2
        return result.err

    return run


PAIRS = [(f"This is number {n}.", f'Voici "{n}", le nombre ;') for n in range(30)]


def saved(folder: Path, kind: str) -> Path:
    """The pairs as a file of some kind."""
    path = folder / {"json": "x.jsonl", "csv": "x.csv", "semicolons": "x.csv"}.get(kind, "x.txt")
    if kind == "json":
        lines = [json.dumps({"translation": {"en": source, "fr": target}}) for source, target in PAIRS]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    elif kind == "anki":
        rows = [f"{source}<br>\t<b>{target}</b>&nbsp;\ttag" for source, target in PAIRS]
        header = ["#separator:tab", "#html:true", "#tags column:3"]
        path.write_text("\n".join([*header, *rows]) + "\n", encoding="utf-8")
    else:
        delimiter = {"csv": ",", "semicolons": ";"}.get(kind, "\t")
        with open(path, "w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter)
            writer.writerows([("English", "French"), *PAIRS])
    return path


@pytest.mark.parametrize("kind", ["json", "anki", "csv", "semicolons", "spreadsheet"])
def test_tables(prepare: Prepare, tmp_path: Path, kind: str) -> None:
    assert prepare(saved(tmp_path, kind), "--tokenizer", "whitespace") == PAIRS


@pytest.mark.parametrize("mark", ["", '"'])
def test_a_header_of_two_columns_is_left_out_and_counted(prepare: Prepare, tmp_path: Path, mark: str) -> None:
    rows = [("English", "French"), *((source, source.upper()) for source, _ in PAIRS)]
    lines = [f"{mark}{source}{mark}\t{mark}{target}{mark}\n" for source, target in rows]
    (tmp_path / "x.tsv").write_text("".join(lines), encoding="utf-8")
    assert prepare(tmp_path / "x.tsv", "--tokenizer", "whitespace") == rows[1:]
    reading = json.loads((tmp_path / "out" / "statistics.json").read_text("utf-8"))["reading"]
    assert reading["left_out"] == {"the names of the columns": 1}


def test_a_row_with_more_columns_is_damage(refuse: Callable[..., str], tmp_path: Path) -> None:
    path = saved(tmp_path, "csv")
    path.write_text(f"{path.read_text('utf-8-sig')}one, two,three\n", encoding="utf-8")
    assert "x.csv, line 32: 3 columns instead of 2" in refuse(path)


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_blank_lines_do_not_count(prepare: Prepare, tmp_path: Path, kind: str) -> None:
    path = saved(tmp_path, kind)
    path.write_text(f"\n\n{path.read_text('utf-8-sig')}\n\n", encoding="utf-8")
    assert prepare(path, "--tokenizer", "whitespace") == PAIRS


def test_a_line_separator_in_json_does_not_end_the_line(prepare: Prepare, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"en": "a b\u2028c", "fr": "d"}\n' * 20, encoding="utf-8")
    assert prepare(tmp_path / "x.jsonl", "--tokenizer", "whitespace") == [("a b c", "d")] * 20


def test_anki_names_the_separator(prepare: Prepare, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("#separator:Colon\n" + "Come, Carl:Viens, Carl\n" * 20)
    assert prepare(tmp_path / "x.csv", "--tokenizer", "whitespace") == [("Come, Carl", "Viens, Carl")] * 20


def test_line_breaks_in_cells(prepare: Prepare, tmp_path: Path) -> None:
    with open(tmp_path / "x.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("a b", "c\nd"), *PAIRS])
    assert prepare(tmp_path / "x.csv")[0] == ("a b", "c d")


def test_a_quotation_mark_that_is_not_closed_is_refused(refuse: Callable[..., str], tmp_path: Path) -> None:
    """Its cell would have the rest of the file."""
    rows = ["a b,c d", '"e f,g h', *["this is a longer row,and its other side"] * 5000]
    (tmp_path / "x.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert "x.csv, line 2: a quotation mark is not closed" in refuse(tmp_path / "x.csv")


def test_columns_are_chosen(
    prepare: Prepare, refuse: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [("id", "note", "de", "en"), *((str(n), "x y", *pair) for n, pair in enumerate(PAIRS))]
    with open(tmp_path / "x.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    (tmp_path / "x.tsv").write_text("".join(f"{a}\t{b}\tthird\n" for a, b in PAIRS), encoding="utf-8")
    refused = refuse(tmp_path / "x.csv")
    assert "has 4 columns with text (id, note, de, en)" in refused and "--columns 2,3" in refused
    assert "has 3 columns with text (1, 2, 3)" in refuse(tmp_path / "x.tsv")
    wrong = refuse(tmp_path / "x.csv", "--columns", "de,it")
    assert "has no column it; its columns are id, note, de, en" in wrong
    assert "does not name two columns" in refuse(tmp_path / "x.csv", "--columns", "2")
    for file, columns in (("x.csv", "de,en"), ("x.csv", "3,4"), ("x.tsv", "1,2")):
        assert prepare(tmp_path / file, "--columns", columns) == PAIRS
    assert "has no column ²" in refuse(tmp_path / "x.tsv", "--columns", "1,²")
    monkeypatch.setattr(pipeline, "_RANGE_BYTES", 100)  # a large file is not divided before its columns are known
    assert prepare(tmp_path / "x.tsv", "--columns", "1,2") == PAIRS


def test_a_damaged_archive_is_refused(refuse: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "fra-eng.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    assert "fra-eng.zip is a damaged ZIP archive" in refuse(tmp_path / "fra-eng.zip")
    with zipfile.ZipFile(tmp_path / "list.zip", "w") as archive:
        archive.writestr("fra.txt", "a\tb\n")
    content = (tmp_path / "list.zip").read_bytes()
    (tmp_path / "list.zip").write_bytes(content.replace(b"PK\x01\x02", b"PK\x01\x09"))
    assert "list.zip is a damaged ZIP archive" in refuse(tmp_path / "list.zip")
    with zipfile.ZipFile(tmp_path / "pairs.xlsx", "w") as sheet:
        sheet.writestr("xl/workbook.xml", "<workbook/>")
    assert "pairs.xlsx is a spreadsheet. Save its table as CSV in UTF-8" in refuse(tmp_path / "pairs.xlsx")


TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><!-- a memory -->
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-US"><seg>A <bpt i="1">&lt;b&gt;</bpt>big<ept i="1">&lt;/b&gt;</ept>
 &amp; <hi>red</hi> car</seg></tuv><tuv xml:lang="FR"><seg>une <!-- grosse -->auto</seg></tuv></tu>
<tu><tuv xml:lang="en-us"><seg>only English</seg></tuv></tu>
<tu><tuv lang="fr"><seg>oui</seg></tuv><tuv lang="en-us"><seg>yes</seg></tuv></tu>{}</body></tmx>"""
THIRD = '<tu><tuv xml:lang="de"><seg>ja</seg></tuv></tu>'
XLIFF_1 = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"
 target-language="fr"><body><trans-unit id="1"><source>A <g id="1">big</g> <x id="2"/>&amp; red car</source>
 <target>une <ph id="3">%s</ph>auto</target><alt-trans><source>no</source><target>non</target></alt-trans></trans-unit>
 <group><trans-unit id="2"><source>only English</source></trans-unit><trans-unit id="3"><source>yes</source>
 <target>oui</target></trans-unit></group></body></file></xliff>"""
XLIFF_2 = """<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="fr"><file id="f">
 <unit id="1"><segment><source>A <pc id="1">big</pc> &amp; red car</source><target>une <ph id="2"/>auto</target>
 </segment><segment><source>only English</source></segment><segment><source>yes</source><target>oui</target>
 </segment></unit></file></xliff>"""


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("a.tmx", TMX.format(""), None),
        ("a.tmx.gz", TMX.format(""), "fr,en"),
        ("utf16.tmx", TMX.format(THIRD).replace("?>", ' encoding="utf-16"?>', 1), "EN,fr"),
        ("a.xlf", XLIFF_1, None),
        ("b.xlf", XLIFF_2, "fr,en"),
    ],
)
def test_translation_memories(prepare: Prepare, tmp_path: Path, name: str, text: str, columns: str | None) -> None:
    content = text.encode("utf-16" if "utf16" in name else "utf-8")
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    options = ["--columns", columns] if columns else []
    rows = [("A big & red car", "une auto"), ("yes", "oui")]
    assert prepare(tmp_path / name, *options) == ([row[::-1] for row in rows] if columns == "fr,en" else rows)
    left_out = json.loads((tmp_path / "out" / "statistics.json").read_text())["reading"]["left_out"]
    assert left_out == {"without one of the two languages": 1 + (THIRD in text)}


def test_languages_are_asked_for_and_truncated_memories_are_damage(refuse: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(TMX.format(THIRD))
    assert "a.tmx has 3 columns with text (en-us, fr, de). Choose source and" in refuse(path)
    path.write_text(TMX.format("")[:-20])
    assert "a.tmx, after unit 2: " in refuse(path)


@pytest.mark.parametrize(("columns", "order"), [(None, 1), ("fr,en", -1)])
def test_an_archive_of_parallel_files(prepare: Prepare, tmp_path: Path, columns: str | None, order: int) -> None:
    """As OPUS distributes them; one file has the line ends of Windows, the other of an old Macintosh."""
    with zipfile.ZipFile(tmp_path / "en-fr.txt.zip", "w") as archive:
        archive.writestr("Books.en-fr.fr", "".join(f"{target}\r" for _, target in PAIRS))
        archive.writestr("Books.en-fr.en", "".join(f"{source}\r\n" for source, _ in PAIRS))
        for name in ("README", "LICENSE", "Books.en-fr.ids"):
            archive.writestr(name, "a\tb\n")
    options = ["--columns", columns] if columns else []
    assert prepare(tmp_path / "en-fr.txt.zip", *options) == [pair[::order] for pair in PAIRS]


def test_an_archive_of_a_table(prepare: Prepare, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "fra-eng.zip", "w") as archive:
        archive.writestr("_about.txt", "by Tatoeba\n")
        archive.writestr("fra.txt", "".join("\t".join(pair) + "\tCC-BY 2.0\n" for pair in PAIRS))
    assert prepare(tmp_path / "fra-eng.zip") == PAIRS
