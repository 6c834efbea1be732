"""Reading goes on where it was stopped, in whatever number of processes, and tells what is damaged."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.corpus import CorpusError, inputs, prepare, reading
from seq2seq_chat.corpus.shards import ReadingSettings
from seq2seq_chat.errors import UserError
from tests.corpus.raw import contents, dump, film


def test_ranges_and_processes_make_no_difference(months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare("reddit", [months], tmp_path / "one", jobs=1)
    monkeypatch.setattr(inputs, "_RANGE_BYTES", 10_000)
    monkeypatch.setattr(inputs, "_TASK_BYTES", 20_000)
    tasks = inputs.plan_tasks("reddit", ReadingSettings(), inputs.find_inputs("reddit", [months]))
    assert len(tasks) > 10
    prepare("reddit", [months], tmp_path / "many", jobs=1)
    monkeypatch.setattr(reading, "_WORTH_A_PROCESS", 0)
    prepare("reddit", [months], tmp_path / "processes", jobs=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "many") == contents(tmp_path / "processes")
    assert json.loads(contents(tmp_path / "one")["statistics.json"])["total"]["samples"] == 3999 - 50


def test_what_is_finished_is_not_read_again(months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "output"
    bad = months / "RC_2010-03"
    dump(bad, range(4000, 4100))
    bad.write_text(bad.read_text() + "{broken}\n" * 300)
    monkeypatch.setattr(inputs, "_TASK_BYTES", 1)
    with pytest.raises(CorpusError, match=r"RC_2010-03, byte \d+: no sound JSON\. In all 300 of 4,399 lines"):
        prepare("reddit", [months], output, jobs=1)
    read: list[str] = []
    original = inputs.read_reddit
    corpus = inputs.CORPORA["reddit"]

    def noting(piece, settings, shard):  # type: ignore[no-untyped-def]
        read.append(Path(piece.path).name)
        original(piece, settings, shard)

    monkeypatch.setitem(inputs.CORPORA, "reddit", inputs.Corpus(noting, corpus.schema, corpus.names, corpus.described))
    dump(bad, range(4000, 4100))
    statistics = prepare("reddit", [months], output, jobs=1)
    assert read == ["RC_2010-03"]
    assert statistics["reading"]["records"] == 4099
    assert not (output / ".preparing").exists()
    prepare("reddit", [months], tmp_path / "afresh", jobs=1)
    assert read == ["RC_2010-03", "RC_2010-01", "RC_2010-02", "RC_2010-03"]
    assert contents(output) == contents(tmp_path / "afresh")


LONG = "/".join(f"this is sentence number {n} and it is long enough" for n in range(60))


def test_copies_are_recognised_by_what_is_said(tmp_path: Path) -> None:
    files = {
        "1.xml": film(LONG),
        "2.xml": film(LONG).replace(b"<w>", b'<time id="T1S" value="00:00:01,000"/><w>'),
        "3.xml": film(LONG.replace("number 7 ", "no 7 ").replace("number 8 ", "no 8 ")),
        "4.xml": film(LONG.replace("sentence", "phrase")),
        "5.xml": film("short/film"),
        "6.xml": film("short/film"),
        "7.xml": film("short/films"),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    statistics = prepare("opensubtitles", [tmp_path], tmp_path / "out", split=(1, 0, 0))
    assert statistics["reading"]["copies"] == 3
    text = (tmp_path / "out" / "train.txt").read_text()
    assert text.count("short\n") == 2
    assert text.count("this is sentence number 30 and") == 1
    assert text.count("this is phrase number 30 and") == 1
    kept = prepare("opensubtitles", [tmp_path], tmp_path / "out", split=(1, 0, 0), keep_copies=True)
    assert (kept["reading"]["copies"], kept["total"]["conversations"]) == (0, 7)


@pytest.mark.parametrize("form", ["plain", "gz", "zip", "list", "files"])
def test_films_from_wherever_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    def tree(folder: Path, pack: Callable[[bytes], bytes], suffix: str) -> list[Path]:
        paths = []
        for year, number in ((1999, 3), (1999, 20), (2001, 1), (2001, 100)):
            path = folder / "OpenSubtitles" / "xml" / "en" / str(year) / f"{number}" / f"{number}.xml{suffix}"
            path.parent.mkdir(parents=True)
            path.write_bytes(pack(film(f"film {number}/says {number}")))
            paths.append(path)
        return paths

    tree(tmp_path / "plain", bytes, "")
    prepare("opensubtitles", [tmp_path / "plain"], tmp_path / "expected", split=(1, 1, 1))
    paths = tree(tmp_path / "other", gzip.compress if form == "gz" else bytes, ".gz" if form == "gz" else "")
    given = [tmp_path / "other"]
    if form == "zip":
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
    prepare("opensubtitles", given, tmp_path / "out", split=(1, 1, 1))
    for name in ("train.txt", "validation.txt", "test.txt", "utterances.parquet", "vocabulary.txt"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "expected" / name).read_bytes()


def test_damage_is_told_and_counted(tmp_path: Path) -> None:
    folder = tmp_path / "films"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.xml").write_bytes(film(f"film {number}/says {number}"))
    (folder / "3.xml").write_bytes(film("never closed")[:-9])
    (folder / "4.xml").write_bytes(film("wrong \xe9").decode().encode("latin-1"))
    cut = gzip.compress(film(LONG))
    (folder / "5.xml.gz").write_bytes(cut[: len(cut) // 2])
    with pytest.raises(CorpusError, match=r"3\.xml: broken XML: .* line 1.* 3 of 11 files.*--max-bad"):
        prepare("opensubtitles", [folder], tmp_path / "out")
    statistics = prepare("opensubtitles", [folder], tmp_path / "out", max_bad=30)
    assert statistics["total"]["conversations"] == 8
    found = json.loads((tmp_path / "out" / "statistics.json").read_text())["reading"]
    assert (found["records"], found["damaged"], found["incomplete_files"]) == (11, 3, 3)
    assert [Path(damage.split(":")[0]).name for damage in found["damages"]] == ["3.xml", "4.xml", "5.xml.gz"]


def test_no_room(tmp_path: Path, months: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **settings: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seq2seq_chat.corpus.shards.pq.ParquetWriter.write_table", full)
    with pytest.raises(UserError, match="cannot be written to: No space left"):
        prepare("reddit", [months], tmp_path / "output", jobs=1)
    monkeypatch.undo()
    prepare("reddit", [months], tmp_path / "output", jobs=1)


def test_a_cut_archive_is_damage_like_any_other(tmp_path: Path) -> None:
    folder = tmp_path / "films"
    folder.mkdir()
    for number in range(3):
        with zipfile.ZipFile(folder / f"{number}.zip", "w") as archive:
            archive.writestr(f"1999/{number}/{number}.xml", film(f"film {number}/says {number}"))
    whole = (folder / "1.zip").read_bytes()
    (folder / "1.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorpusError, match=r"1\.zip: it cannot be unpacked: .* 1 of 3 files"):
        prepare("opensubtitles", [folder], tmp_path / "out")
    statistics = prepare("opensubtitles", [folder], tmp_path / "out", max_bad=50)
    assert (statistics["total"]["utterances"], statistics["reading"]["incomplete_files"]) == (4, 1)
    (folder / "1.zip").write_bytes(whole)
    assert prepare("opensubtitles", [folder], tmp_path / "out")["total"]["utterances"] == 6


def test_an_archive_that_was_changed_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "films.zip"
    for words in ("one/film", "quite another/film here"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("1999/1/1.xml", film(words))
        prepare("opensubtitles", [path], tmp_path / "out", split=(1, 0, 0))
        assert (tmp_path / "out" / "train.txt").read_text().split("\n")[:2] == words.split("/")


def test_what_is_cut_off_is_told_before_what_is_broken(months: Path, tmp_path: Path) -> None:
    first, last = months / "RC_2010-01", months / "RC_2010-03.gz"
    first.write_text(first.read_text() + "{broken}\n" * 300)
    dump(months / "RC_2010-03", range(4000, 4100))
    packed = gzip.compress((months / "RC_2010-03").read_bytes())
    (months / "RC_2010-03").unlink()
    last.write_bytes(packed[:-200])
    with pytest.raises(CorpusError, match=r"RC_2010-03\.gz, after byte .*: the compressed data are damaged"):
        prepare("reddit", [months], tmp_path / "out", jobs=1)


def test_names_that_can_be_written_in_other_ways(months: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (months / "RC_2010-01").read_text().splitlines()]
    text = "".join(json.dumps(line | {"subreddit": "café/1"}).replace("/", "\\/") + "\n" for line in lines)
    (tmp_path / "RC_2010-01").write_text(text)
    found = [
        prepare("reddit", [path], tmp_path / f"out{number}", reading=ReadingSettings(subreddits=names), split=(1, 0, 0))
        for number, (path, names) in enumerate(
            [(months / "RC_2010-01", ()), (tmp_path / "RC_2010-01", ("café/1",)), (tmp_path / "RC_2010-01", ())]
        )
    ]
    assert found[0]["total"] == found[1]["total"] == found[2]["total"]
    assert (tmp_path / "out0" / "train.txt").read_bytes() == (tmp_path / "out1" / "train.txt").read_bytes()


@pytest.mark.parametrize("name", ["~", "it's [a] %2a * ? ü", '"quoted"', "new\nline"])
def test_folders_of_any_name(months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    prepare("reddit", [months], "plain")
    (tmp_path / name).mkdir()
    prepare("reddit", [months], name)
    assert contents(tmp_path / "plain") == contents(tmp_path / name)


def test_members_that_cannot_be_unpacked(tmp_path: Path) -> None:
    for number, how in enumerate((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)):
        path = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(path, "w", how) as archive:
            archive.writestr("1999/1/1.xml", film(LONG))
        content = bytearray(path.read_bytes())
        begin = content.index(b"1.xml") + 20
        content[begin : begin + 20] = b"\xff" * 20
        path.write_bytes(content)
    with pytest.raises(CorpusError, match=r"it cannot be unpacked: .* 4 of 4 files"):
        prepare("opensubtitles", [tmp_path], tmp_path / "out")


def test_cornells_lines_may_not_change_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tmp_path / "movie_lines.txt"
    sign = " +++$+++ "
    lines.write_text(f"{sign.join(['L1', 'u0', 'm0', 'A', 'Well.'])}\n{sign.join(['L2', 'u1', 'm0', 'B', 'No!'])}\n")
    (tmp_path / "movie_conversations.txt").write_text("u0 +++$+++ u1 +++$+++ m0 +++$+++ ['L1', 'L2']\n")
    (first,) = inputs.plan_tasks("cornell", ReadingSettings(), inputs.find_inputs("cornell", [tmp_path]))
    key = first.key()
    lines.write_text(lines.read_text().replace("Well", "<u>Well</u> well"))
    assert first.key() != key
    prepare("cornell", [tmp_path], tmp_path / "out", split=(1, 0, 0))
    assert (tmp_path / "out" / "train.txt").read_text().startswith("well well .\nno !\n")
