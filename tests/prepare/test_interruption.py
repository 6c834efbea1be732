"""A preparation that is stopped, by whatever, goes on where it was and makes the same files."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.corpus import inputs, prepare, reading
from seq2seq_chat.corpus.shards import ReadingStopped
from seq2seq_chat.errors import UserError
from tests.corpus.raw import contents, film

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
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
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
