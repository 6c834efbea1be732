"""Reading goes on where it was stopped, in whatever number of processes, and tells what is damaged."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.corpus import CorpusError, inputs, prepare, reading
from seq2seq_chat.corpus.shards import ReadingSettings, ReadingStopped
from seq2seq_chat.errors import UserError


def comment(number: int, parent: int | None, thread: int = 0) -> str:
    fields = {"id": f"c{number}", "link_id": f"t3_{thread}", "parent_id": f"t1_c{parent}" if parent else f"t3_{thread}"}
    return json.dumps(fields | {"subreddit": "movies", "body": f"comment {number}", "score": 1, "created_utc": number})


def dump(path: Path, numbers: range) -> Path:
    """A chain of comments in each of 50 submissions."""
    path.write_text("".join(comment(n, n - 50 if n > 50 else None, n % 50) + "\n" for n in numbers))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def months(tmp_path: Path) -> Path:
    folder = tmp_path / "months"
    folder.mkdir()
    dump(folder / "RC_2010-01", range(1, 2000))
    dump(folder / "RC_2010-02", range(2000, 4000))
    return folder


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


KILLED = """
import os, signal, sys
from seq2seq_chat.corpus import inputs, prepare
inputs._TASK_BYTES = 1
original, corpus, count = inputs.read_reddit, inputs.CORPORA["reddit"], 0
def dying(piece, settings, shard):
    global count
    count += 1
    original(piece, settings, shard)
    if count == 2:
        os.kill(os.getpid(), getattr(signal, sys.argv[3]))
inputs.CORPORA["reddit"] = inputs.Corpus(dying, corpus.schema, corpus.names, corpus.described)
prepare("reddit", [sys.argv[1]], sys.argv[2], jobs=1)
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_a_killed_preparation_goes_on(months: Path, tmp_path: Path, name: str) -> None:
    output = tmp_path / "output"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(months), str(output), name]
    run = subprocess.run(command, env=environment, check=False, capture_output=True, timeout=240)
    assert run.returncode == -getattr(signal, name)
    assert sorted(path.name for path in output.iterdir()) == [".preparing"]
    assert len(list((output / ".preparing").glob("*.json"))) == 1
    prepare("reddit", [months], output, jobs=1)
    prepare("reddit", [months], tmp_path / "afresh", jobs=1)
    assert contents(output) == contents(tmp_path / "afresh")


def test_two_at_once(months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "output"

    def again(*arguments: object) -> list[object]:
        with pytest.raises(UserError, match="by another preparation"):
            prepare("reddit", [months], output)
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules[prepare.__module__], "read_tasks", again)
    with pytest.raises(KeyboardInterrupt):
        prepare("reddit", [months], output)


def film(words: str) -> bytes:
    sentences = "".join(f"<s>{''.join(f'<w>{w}</w>' for w in line.split())}</s>" for line in words.split("/"))
    return f"<document>{sentences}</document>".encode()


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


def test_a_file_that_changes_while_it_is_read(months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = inputs.CORPORA["reddit"]

    def growing(piece: Any, settings: Any, shard: Any) -> None:
        corpus.read(piece, settings, shard)
        with open(piece.path, "a") as file:
            file.write("{}\n")

    monkeypatch.setitem(inputs.CORPORA, "reddit", inputs.Corpus(growing, corpus.schema, corpus.names, corpus.described))
    with pytest.raises(ReadingStopped, match=r"RC_2010-01 .*changed while it was read\. Start again"):
        prepare("reddit", [months], tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()  # nothing was finished
    monkeypatch.setattr(inputs, "_TASK_BYTES", 1)
    grow = [months / "RC_2010-02"]

    def growing_later(piece: Any, settings: Any, shard: Any) -> None:
        (growing if Path(piece.path) in grow else corpus.read)(piece, settings, shard)

    changed = inputs.Corpus(growing_later, corpus.schema, corpus.names, corpus.described)
    monkeypatch.setitem(inputs.CORPORA, "reddit", changed)
    with pytest.raises(ReadingStopped, match="RC_2010-02 changed"):
        prepare("reddit", [months], tmp_path / "out", jobs=1)
    assert len(list((tmp_path / "out" / ".preparing").glob("*.json"))) == 1
    grow.clear()
    prepare("reddit", [months], tmp_path / "out", jobs=1, max_bad=100)


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


STOPPED = """
import os, signal, sys
from seq2seq_chat.cli import main
from seq2seq_chat.corpus import engine, inputs, reading
reading._WORTH_A_PROCESS, inputs._RANGE_BYTES, inputs._TASK_BYTES = 0, 10_000, 20_000
place, number = sys.argv.pop(), getattr(signal, sys.argv.pop())
read, stored = reading._read_by_processes, engine._DuckDB.store
def stopping(*arguments):
    for done in read(*arguments):
        if place == "reading":
            os.kill(os.getpid(), number)
        yield done
def storing(self, *arguments):
    timer = signal.setitimer(signal.ITIMER_REAL, 0.2)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
    self._connection.con.sql("SELECT count(*) FROM range(100000000000) WHERE sqrt(range) = 0.5").fetchall()
reading._read_by_processes = stopping
if place == "engine":
    engine._DuckDB.store = storing
main()
"""


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("place", ["reading", "engine"])
@pytest.mark.parametrize("long", [False, True], ids=["forked", "spawned"])
def test_a_request_to_stop_leaves_nothing_temporary(
    months: Path, tmp_path: Path, name: str, status: int, place: str, long: bool
) -> None:
    # Sockets, by which processes are forked, cannot be in a folder whose name is long.
    with tempfile.TemporaryDirectory(prefix="x" * 90 if long else "x") as temporary:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": temporary}
        arguments = ["prepare", "reddit", str(months), "--output", str(tmp_path / "output"), "--jobs", "2", name, place]
        run = subprocess.run(
            [sys.executable, "-c", STOPPED, *arguments], env=environment, check=False, capture_output=True, timeout=240
        )
        assert (run.returncode, run.stderr.decode().strip()) == (status, "seq2seq-chat: stopped")
        assert not list(Path(temporary).iterdir())
    assert list((tmp_path / "output" / ".preparing").glob("*.json"))
    for output in ("output", "afresh"):
        prepare("reddit", [months], tmp_path / output, jobs=1)
    assert contents(tmp_path / "output") == contents(tmp_path / "afresh")


def test_a_killed_process_loses_nothing_that_is_finished(
    months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_WORTH_A_PROCESS", 0)
    monkeypatch.setattr(inputs, "_RANGE_BYTES", 10_000)
    monkeypatch.setattr(inputs, "_TASK_BYTES", 20_000)
    end = reading._submit
    killed: list[int] = []

    def killing(pool: Any, waiting: Any, futures: Any) -> None:
        if list((tmp_path / "out" / ".preparing").glob("*.json")) and not killed:
            killed.append(next(iter(pool._processes)))
            os.kill(killed[0], signal.SIGKILL)
        end(pool, waiting, futures)

    monkeypatch.setattr(reading, "_submit", killing)
    with pytest.raises(ReadingStopped, match=r"was killed, perhaps for want of memory.*--jobs"):
        prepare("reddit", [months], tmp_path / "out", jobs=2)
    monkeypatch.undo()
    finished = {path.name for path in (tmp_path / "out" / ".preparing").glob("*.json")}
    assert finished
    prepare("reddit", [months], tmp_path / "out", jobs=1)
    prepare("reddit", [months], tmp_path / "afresh", jobs=1)
    assert contents(tmp_path / "out") == contents(tmp_path / "afresh")


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


def test_an_archive_that_lost_a_film_while_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "films.zip"

    def write(names: list[str]) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, film("one/film"))

    write(["1999/1/1.xml", "1999/2/2.xml"])
    corpus = inputs.CORPORA["opensubtitles"]

    def losing(piece: Any, settings: Any, shard: Any) -> None:
        write(["1999/1/1.xml"])
        corpus.read(piece, settings, shard)

    monkeypatch.setitem(inputs.CORPORA, "opensubtitles", dataclasses.replace(corpus, read=losing))
    with pytest.raises(ReadingStopped, match="changed while it was read"):
        prepare("opensubtitles", [path], tmp_path / "out")


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
