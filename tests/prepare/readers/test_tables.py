"""Pairs in tables as programs save them, read as they are."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.conftest import Cli

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
def test_tables(cli: Cli, tmp_path: Path, kind: str) -> None:
    command = ("prepare", "pairs", saved(tmp_path, kind), "--output", tmp_path / "out", "--split", "100,0,0")
    result = cli(*command, "--tokenizer", "whitespace")
    assert result.status == 0, result
    rows = [tuple(line.split("\t")) for line in (tmp_path / "out" / "train.tsv").read_text("utf-8").splitlines()]
    assert rows == PAIRS


def test_line_breaks_in_cells(cli: Cli, tmp_path: Path) -> None:
    with open(tmp_path / "x.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("a b", "c\nd"), *PAIRS])
    command = ("prepare", "pairs", tmp_path / "x.csv", "--output", tmp_path / "out", "--split", "100,0,0")
    assert cli(*command, "--tokenizer", "whitespace").status == 0
    assert (tmp_path / "out" / "train.tsv").read_text("utf-8").splitlines()[0] == "a b\tc d"


def test_a_quotation_mark_that_is_not_closed_is_refused(cli: Cli, tmp_path: Path) -> None:
    """Its cell would have the rest of the file."""
    rows = ["a b,c d", '"e f,g h', *["this is a longer row,and its other side"] * 5000]
    (tmp_path / "x.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    result = cli("prepare", "pairs", tmp_path / "x.csv", "--output", tmp_path / "out")
    assert result.status == 2 and "x.csv, line 2: a quotation mark is not closed" in result.err


def test_columns_are_chosen(cli: Cli, tmp_path: Path) -> None:
    rows = [("id", "note", "de", "en"), *((str(n), "x y", *pair) for n, pair in enumerate(PAIRS))]
    with open(tmp_path / "x.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    (tmp_path / "x.tsv").write_text("".join(f"{a}\t{b}\tthird\n" for a, b in PAIRS), encoding="utf-8")
    options = ("--output", tmp_path / "out", "--split", "100,0,0", "--tokenizer", "whitespace")
    refused = cli("prepare", "pairs", tmp_path / "x.csv", *options)
    assert refused.status == 2
    assert "has 4 columns with text (id, note, de, en)" in refused.err and "--columns 2,3" in refused.err
    assert "has 3 columns with text (1, 2, 3)" in cli("prepare", "pairs", tmp_path / "x.tsv", *options).err
    wrong = cli("prepare", "pairs", tmp_path / "x.csv", *options, "--columns", "de,it")
    assert "has no column it; its columns are id, note, de, en" in wrong.err
    assert "does not name two columns" in cli("prepare", "pairs", tmp_path / "x.csv", *options, "--columns", "2").err
    for file, columns in (("x.csv", "de,en"), ("x.csv", "3,4"), ("x.tsv", "1,2")):
        assert cli("prepare", "pairs", tmp_path / file, *options, "--columns", columns).status == 0
        lines = (tmp_path / "out" / "train.tsv").read_text("utf-8").splitlines()
        assert [tuple(line.split("\t")) for line in lines] == PAIRS


def test_an_archive_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "fra-eng.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    result = cli("prepare", "pairs", tmp_path / "fra-eng.zip", "--output", tmp_path / "out")
    assert result.status == 2 and "is a ZIP archive. Unpack it" in result.err
